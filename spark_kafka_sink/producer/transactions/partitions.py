"""Which partitions the coordinator has in the transaction, where it must be told (V1).

Before the first batch of a partition is sent, AddPartitionsToTxn names it to the coordinator, or
its log would hold records that no marker ever ends. On transactions V2 the brokers do that.
Source: KIP-98, KIP-890; Kafka's ``TransactionManager.maybeAddPartition``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.client.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable


class PartitionState(Enum):
    """Where a partition stands."""

    NEW = auto()
    """It is to be added."""
    ADDING = auto()
    """AddPartitionsToTxn is in flight."""
    ADDED = auto()


class TransactionPartitions:
    """The partitions of one transaction; sender thread only."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._unused: set[TopicPartition] = set()
        """Those that were added and that nothing was sent to yet."""

    def is_added(self, partition: TopicPartition) -> bool:
        """Whether the coordinator has confirmed it."""
        return self._states.get(partition) is PartitionState.ADDED

    def pending(self, topic: str) -> int:
        """How many of a topic's partitions are to be added or are being added."""
        return sum(
            partition.topic == topic and state is not PartitionState.ADDED
            for partition, state in self._states.items()
        )

    def is_new(self, partition: TopicPartition) -> bool:
        """Whether nobody has wanted it yet."""
        return partition not in self._states

    def unused_first(self, topic: str, numbers: Iterable[int]) -> list[int]:
        """These partitions of a topic, first those that were added and have got nothing yet."""
        unused = {partition for name, partition in self._unused if name == topic}
        return sorted(numbers, key=lambda number: number not in unused)

    def want(self, partitions: Iterable[TopicPartition]) -> None:
        """Add these, unless that is done or under way."""
        for partition in partitions:
            self._states.setdefault(partition, PartitionState.NEW)

    def of(self, state: PartitionState) -> list[TopicPartition]:
        """The partitions in this state, in the order in which they were wanted."""
        return [partition for partition, now in self._states.items() if now is state]

    def adding(self) -> list[TopicPartition]:
        """All that are to be added, which are being added from now on."""
        added = self.of(PartitionState.NEW)
        self._states.update(dict.fromkeys(added, PartitionState.ADDING))
        return added

    def added(self, partition: TopicPartition) -> None:
        """The coordinator has it."""
        self._states[partition] = PartitionState.ADDED
        self._unused.add(partition)

    def again(self) -> None:
        """What is being added must be asked for once more."""
        adding = self.of(PartitionState.ADDING)
        self._states.update(dict.fromkeys(adding, PartitionState.NEW))

    def drop(self, partition: TopicPartition) -> None:
        """It was refused; a later batch may want it again."""
        self._states.pop(partition, None)

    def used(self, partitions: Iterable[TopicPartition]) -> None:
        """Something was sent to these."""
        if self._unused:
            self._unused.difference_update(partitions)


class UnassignedBatches:
    """Adds partitions for batches of one topic that may go to any, no more than there are batches.

    A partition that is added costs a marker. A batch for which one is being added waits for it.

    Args:
        partitions: those of the transaction.
        topic: its name.
        ready: how many batches wait.
        new: takes the partitions that are to be added.
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
        """Every batch has gone, or a partition is being added for it."""
        return self._free <= 0

    def order(self, drawn: Iterable[int]) -> list[int]:
        """The drawn partitions, first those that were added for a batch that is still here."""
        return self._partitions.unused_first(self._topic, drawn)

    def may_take(self, number: int) -> bool:
        """Whether a batch may go to this partition now; if it is new, it is added for one."""
        partition = TopicPartition(self._topic, number)
        if self._partitions.is_new(partition):
            self._new.append(partition)
            self._free -= 1
        return self._partitions.is_added(partition)

    def taken(self, batches: int) -> None:
        """So many batches have gone."""
        self._free -= batches
