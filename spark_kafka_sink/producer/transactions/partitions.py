"""The partitions of a transaction, which the producer must add (transactions V1).

Before the first batch of a partition is sent, AddPartitionsToTxn must add the partition; otherwise
its log would contain a transaction that no marker ever ends. With transactions V2, the brokers add
the partitions.

Source: KIP-98, KIP-890; Kafka's ``TransactionManager.maybeAddPartition``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.client.cluster_snapshot import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable


class AddState(Enum):
    """The state of a partition in the transaction."""

    NEW = auto()
    """The partition must be added."""
    ADDING = auto()
    """AddPartitionsToTxn is in flight."""
    ADDED = auto()


class TransactionPartitions:
    """The partitions of one transaction; sender thread only."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, AddState] = {}
        self._unused: set[TopicPartition] = set()
        """Added partitions to which nothing has been sent."""

    def is_added(self, partition: TopicPartition) -> bool:
        """Return True if the coordinator has confirmed the partition."""
        return self._states.get(partition) is AddState.ADDED

    def pending(self, topic: str) -> int:
        """Return the number of a topic's partitions that must be added or are being added."""
        return sum(
            partition.topic == topic and state is not AddState.ADDED
            for partition, state in self._states.items()
        )

    def is_new(self, partition: TopicPartition) -> bool:
        """Return True if the addition of the partition has not been requested."""
        return partition not in self._states

    def unused_first(self, topic: str, numbers: Iterable[int]) -> list[int]:
        """Return these partitions of a topic; partitions that are added but unused come first."""
        unused = {partition for name, partition in self._unused if name == topic}
        return sorted(numbers, key=lambda number: number not in unused)

    def want(self, partitions: Iterable[TopicPartition]) -> None:
        """Request that these partitions be added, unless they are added or being added."""
        for partition in partitions:
            self._states.setdefault(partition, AddState.NEW)

    def of(self, state: AddState) -> list[TopicPartition]:
        """Return the partitions in this state, in the order in which they were requested."""
        return [partition for partition, now in self._states.items() if now is state]

    def adding(self) -> list[TopicPartition]:
        """Return all partitions to be added, and mark them as being added."""
        added = self.of(AddState.NEW)
        self._states.update(dict.fromkeys(added, AddState.ADDING))
        return added

    def added(self, partition: TopicPartition) -> None:
        """Record that the coordinator has added the partition."""
        self._states[partition] = AddState.ADDED
        self._unused.add(partition)

    def retry_adding(self) -> None:
        """Mark the partitions being added as not added, so that they are requested again."""
        adding = self.of(AddState.ADDING)
        self._states.update(dict.fromkeys(adding, AddState.NEW))

    def drop(self, partition: TopicPartition) -> None:
        """Remove a rejected partition; a later batch may request it again."""
        self._states.pop(partition, None)

    def used(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that batches were sent to these partitions."""
        if self._unused:
            self._unused.difference_update(partitions)


class UnassignedBatches:
    """Adds partitions for unassigned batches of one topic, at most one per batch.

    Adding few partitions saves transaction markers. A batch for which a partition is being added
    waits for that partition.

    Args:
        partitions: the partitions of the transaction.
        topic: the topic's name.
        ready: the number of waiting batches.
        new: receives the partitions to be added.
    """

    def __init__(
        self,
        partitions: TransactionPartitions,
        topic: str,
        ready: int,
        new: list[TopicPartition],
    ) -> None:
        self._partitions, self._topic, self._new = partitions, topic, new
        self._free = ready - partitions.pending(topic)

    @property
    def done(self) -> bool:
        """True if every batch is drained or has a partition that is being added."""
        return self._free <= 0

    def order(self, drawn: Iterable[int]) -> list[int]:
        """Return the drawn partitions; partitions that are added but unused come first."""
        return self._partitions.unused_first(self._topic, drawn)

    def may_take(self, number: int) -> bool:
        """Return True if a batch may be sent to this partition now; request a new partition."""
        partition = TopicPartition(self._topic, number)
        if self._partitions.is_new(partition):
            self._new.append(partition)
            self._free -= 1
        return self._partitions.is_added(partition)

    def taken(self, batches: int) -> None:
        """Record that `batches` batches were drained."""
        self._free -= batches
