"""A partition of a topic."""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER = -1
"""The node id of the leader of a partition without a leader, Java's ``NO_LEADER_ID``."""
UNASSIGNED = -1
"""The partition number of records without a partition, also in failure reports.

It equals Java's ``RecordMetadata.UNKNOWN_PARTITION``.
"""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int
    """The partition's index; UNASSIGNED for records without a partition."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
