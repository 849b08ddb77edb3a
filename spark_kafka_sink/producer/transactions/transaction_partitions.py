"""The partitions of a session's transaction that the producer must add (transactions V1).

With transactions V1, the producer must add each partition with AddPartitionsToTxn before it sends
the first batch; otherwise the partition's log would contain a transaction that no marker ever ends.
With transactions V2, the brokers add the partitions.

Source: KIP-98, KIP-890; Kafka's ``TransactionManager.maybeAddPartition``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions.coordinator_errors import CoordinatorAction, action_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
        self._denied: set[str] = set()
        """Topics to which the coordinator denied access, until `take_denied`."""

    def is_added(self, topic_partition: TopicPartition) -> bool:
        """Return True if the coordinator has confirmed the partition."""
        return self._states.get(topic_partition) is AddState.ADDED

    def pending(self, topic: str) -> int:
        """Return the number of a topic's partitions that must be added or are being added."""
        return sum(
            partition.topic == topic and state is not AddState.ADDED
            for partition, state in self._states.items()
        )

    def candidates(self, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return the partitions of a topic that are not being added.

        Partitions that are added but unused come first.
        """
        unused = {number for name, number in self._unused if name == topic}
        settled = [
            number
            for number in partitions
            if self._states.get(TopicPartition(topic, number)) in (None, AddState.ADDED)
        ]
        return sorted(settled, key=lambda number: number not in unused)

    def request(self, partitions: Iterable[TopicPartition]) -> None:
        """Request that these partitions be added, unless they are added or being added."""
        for partition in partitions:
            self._states.setdefault(partition, AddState.NEW)

    def in_state(self, state: AddState) -> list[TopicPartition]:
        """Return the partitions in this state, in the order in which they were requested."""
        return [partition for partition, now in self._states.items() if now is state]

    def take_new(self) -> list[TopicPartition]:
        """Return all partitions to be added, and mark them as being added."""
        added = self.in_state(AddState.NEW)
        self._states.update(dict.fromkeys(added, AddState.ADDING))
        return added

    def record_response(self, codes: Mapping[tuple[str, int], int]) -> set[int]:
        """Apply the partitions' error codes; return those that delay or end the transaction."""
        rejected: set[int] = set()
        for key, code in codes.items():
            topic_partition = TopicPartition(*key)
            action = action_for(ApiKey.ADD_PARTITIONS_TO_TXN, code)
            if action is CoordinatorAction.DONE:
                self.mark_added(topic_partition)
            elif action is CoordinatorAction.DENIED:
                self.drop(topic_partition)
                self._denied.add(topic_partition.topic)
            else:
                rejected.add(code)
        self.retry_adding()
        return rejected - {ErrorCode.operation_not_attempted}

    def take_denied(self) -> frozenset[str]:
        """Return and forget the topics to which the coordinator has denied access."""
        denied = frozenset(self._denied)
        self._denied.clear()
        return denied

    def mark_added(self, topic_partition: TopicPartition) -> None:
        """Record that the coordinator has added the partition."""
        self._states[topic_partition] = AddState.ADDED
        self._unused.add(topic_partition)

    def retry_adding(self) -> None:
        """Mark the partitions being added as not added, so that they are requested again."""
        adding = self.in_state(AddState.ADDING)
        self._states.update(dict.fromkeys(adding, AddState.NEW))

    def drop(self, topic_partition: TopicPartition) -> None:
        """Remove a rejected partition; a later batch may request it again."""
        self._states.pop(topic_partition, None)

    def mark_used(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that batches were sent to these partitions."""
        if self._unused:
            self._unused.difference_update(partitions)
