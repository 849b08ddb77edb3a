"""Offsets committed in a transaction, which are pending until its marker is written (KIP-98).

Corresponds to the transactional part of Kafka's OffsetMetadataManager. All groups share one
partition of the offsets topic. This partition has no log: only the producers and their pending
offsets are stored.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

from spark_kafka_sink.broker.coordinator.committed_offsets import CommittedOffset
from spark_kafka_sink.broker.coordinator.transaction_state import ProducerIdAndEpoch
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
    from spark_kafka_sink.broker.storage.journal import Journal
    from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker


_PENDING = "pending_offset"
_EPOCHS = "offset_epoch"
Pending: TypeAlias = "dict[tuple[str, TopicPartition], CommittedOffset]"
"""Pending offsets of one producer's transaction, by group id and topic-partition."""


class TransactionalOffsets:
    """Stores pending offsets by producer id, and the newest epoch of each producer.

    Args:
        journal: stores the offsets across restarts.
        groups: the groups, which receive the offsets of committed transactions.
    """

    def __init__(self, journal: Journal, groups: GroupCoordinator) -> None:
        self._journal = journal
        self._groups = groups
        self._epochs = {int(key[0]): int(epoch) for key, epoch in journal.all(_EPOCHS).items()}
        self._pending: dict[int, Pending] = {}
        for (producer, group, topic, index), value in journal.all(_PENDING).items():
            pending = self._pending.setdefault(int(producer), {})
            offset = CommittedOffset(**value)
            pending[str(group), TopicPartition(str(topic), int(index))] = offset
            groups.get_or_create(str(group))
            groups.skip_orders(offset.order)

    def is_ongoing(self, producer: ProducerIdAndEpoch) -> bool:
        """Return True if the producer's transaction already includes offsets."""
        is_current = self._epochs.get(producer.producer_id) == producer.epoch
        return is_current and producer.producer_id in self._pending

    def check_epoch(self, producer: ProducerIdAndEpoch) -> ErrorCode:
        """Return INVALID_PRODUCER_EPOCH if a newer epoch of the producer is known."""
        is_fenced = producer.epoch < self._epochs.get(producer.producer_id, producer.epoch)
        return ErrorCode.invalid_producer_epoch if is_fenced else ErrorCode.none

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Register that a producer's transaction includes offsets, even if none are pending yet."""
        self._set_epoch(producer)
        self._pending.setdefault(producer.producer_id, {})

    def add(
        self,
        producer: ProducerIdAndEpoch,
        group_id: str,
        topic_partition: TopicPartition,
        offset: CommittedOffset,
    ) -> None:
        """Store an offset until its transaction ends."""
        self.begin(producer)
        key = (producer.producer_id, group_id, *topic_partition)
        self._journal.put(_PENDING, key, asdict(offset))
        self._pending[producer.producer_id][group_id, topic_partition] = offset

    def forget_producer(self, producer_id: int) -> None:
        """Delete the epoch of a producer id whose transactional id no longer exists.

        Raises:
            OSError: the journal failed. The epoch is retained.
        """
        if producer_id in self._epochs and producer_id not in self._pending:
            self._journal.put(_EPOCHS, (producer_id,), None)
            del self._epochs[producer_id]

    def forget_other_producers(self, known: Container[int]) -> None:
        """Delete the epochs of all producer ids except `known`.

        Raises:
            OSError: the journal failed. Some of the epochs are retained.
        """
        for producer_id in list(self._epochs):
            if producer_id not in known:
                self.forget_producer(producer_id)

    def end(self, marker: EndTransactionMarker) -> None:
        """Commit or discard a producer's pending offsets.

        If an offset was committed after a pending offset, the pending offset is discarded.

        Raises:
            OSError: some offsets are still pending. The caller must retry writing the marker.
        """
        self._set_epoch(ProducerIdAndEpoch(marker.producer_id, marker.epoch))
        pending = self._pending.get(marker.producer_id, {})
        for (group_id, topic_partition), offset in list(pending.items()):
            offsets = self._groups.get_or_create(group_id).offsets
            if marker.is_commit and (
                topic_partition not in offsets or offsets[topic_partition].order <= offset.order
            ):
                offsets[topic_partition] = offset
            self._journal.put(_PENDING, (marker.producer_id, group_id, *topic_partition), None)
            del pending[group_id, topic_partition]
        self._pending.pop(marker.producer_id, None)

    def forget(self, is_deleted: Callable[[str, TopicPartition], bool]) -> None:
        """Delete pending offsets, so that a later commit cannot restore deleted offsets.

        Args:
            is_deleted: returns True if the offset of a group for a topic-partition is deleted.

        Raises:
            OSError: the journal failed; some offsets are left.
        """
        for producer_id, pending in self._pending.items():
            for group_id, topic_partition in [key for key in pending if is_deleted(*key)]:
                self._journal.put(_PENDING, (producer_id, group_id, *topic_partition), None)
                del pending[group_id, topic_partition]

    def forget_topic(self, name: str) -> None:
        """Delete all groups' committed and pending offsets for a deleted topic.

        Raises:
            OSError: the journal failed; some offsets are left.
        """
        self.forget(lambda _, topic_partition: topic_partition[0] == name)
        self._groups.forget_topic(name)

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Return True if an open transaction includes an offset for the partition (KIP-447)."""
        return any((group_id, topic_partition) in pending for pending in self._pending.values())

    def _set_epoch(self, producer: ProducerIdAndEpoch) -> None:
        if self._epochs.get(producer.producer_id) != producer.epoch:
            self._journal.put(_EPOCHS, (producer.producer_id,), producer.epoch)
            self._epochs[producer.producer_id] = producer.epoch
