"""What a batch is held against when it is appended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topic_config import TopicConfig


class AppendOptions(NamedTuple):
    """The topic's configs, the Produce request's version, and the time in milliseconds since 1970.

    `verified` says that the coordinator knows the partition as part of the batch's transaction.
    """

    config: TopicConfig
    produce_version: int
    now_ms: int
    verified: bool = False
