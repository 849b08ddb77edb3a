"""A topic and its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

if TYPE_CHECKING:
    from spark_kafka_sink.broker.config.topic_config import TopicConfig
    from spark_kafka_sink.broker.partition.partition import Partition


@dataclass(slots=True, kw_only=True)
class Topic:
    """A topic, its partitions by index, and its id (KIP-516)."""

    name: str
    id: UUID = field(default_factory=uuid4)
    config: TopicConfig
    partitions: list[Partition]
    is_replicated: bool = False
    """True if a partition has, or has had, more than one replica."""

    @property
    def replication_factor(self) -> int:
        """Number of replicas of each partition."""
        return len(self.partitions[0].replicas)

    def partition(self, index: int) -> Partition | None:
        """Return the partition with this index, or None if it does not exist."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None
