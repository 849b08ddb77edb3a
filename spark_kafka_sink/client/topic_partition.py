"""A partition of a topic, by name and number. Source: Kafka's ``TopicPartition``."""

from __future__ import annotations

from typing import NamedTuple

UNASSIGNED = -1
"""The partition of records that have none yet; failure reports of such records have it too, as
Java's ``RecordMetadata.UNKNOWN_PARTITION``."""


class TopicPartition(NamedTuple):
    """A partition of a topic; `partition` is UNASSIGNED for records that have none yet."""

    topic: str
    partition: int
