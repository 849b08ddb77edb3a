"""How an embedded broker is set up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from spark_kafka_sink.base.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default of message.max.bytes: a batch of 1 MiB and its 12 bytes of log overhead."""


class BrokerOptions(TypedDict, total=False):
    """The keywords of `EmbeddedBroker`; see `BrokerConfig` for their meaning."""

    topics: Mapping[str, int]
    topic_configs: Mapping[str, Mapping[str, str]]
    nodes: int
    host: str
    port: int
    default_partitions: int
    auto_create_topics: bool
    message_max_bytes: int
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of an embedded broker.

    Args:
        topics: topics to begin with, and how many partitions each has.
        topic_configs: topic-level configs (Kafka's names) by topic.
        nodes: how many brokers the cluster appears to have; partitions are spread over them.
        host: the address to listen on and to announce.
        port: the first node's port, the others follow; 0 takes any free port for each.
        default_partitions: Kafka's num.partitions, for topics made without a number.
        auto_create_topics: whether asking for an unknown topic's metadata creates it.
        message_max_bytes: the largest batch taken, in bytes with its header.
        cluster_id: the id that the cluster gives itself.

    Raises:
        ConfigError: a number is out of range.
    """

    topics: Mapping[str, int] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    nodes: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    default_partitions: int = 1
    auto_create_topics: bool = False
    message_max_bytes: int = MAX_MESSAGE_BYTES
    cluster_id: str = "kafkaprod-embedded-00"

    def __post_init__(self) -> None:
        for name, lowest in (("nodes", 1), ("default_partitions", 1), ("message_max_bytes", 61)):
            value = getattr(self, name)
            if value < lowest:
                raise ConfigError(f"{name} is {value}", hint=f"It must be at least {lowest}")
        if not 0 <= self.port <= 65_535 - (self.nodes if self.port else 0):
            raise ConfigError(f"port is {self.port}", hint="0 takes any free port")
