"""Offsets that are committed inside of transactions: pending until the marker comes (KIP-98).

As the part of Kafka's OffsetMetadataManager that deals with transactions. All groups share one
partition of the offsets topic; it has no log, only producers and what they left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.group_offsets import CommittedOffset
from spark_kafka_sink.broker.coordinator.transaction_metadata import ProducerIdAndEpoch

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
    from spark_kafka_sink.broker.storage.journal import Journal
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.records.control_batch import EndTransactionMarker

PENDING = "pending_offset"
EPOCHS = "offset_epoch"
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITION: TopicPartition = (OFFSETS_TOPIC, 0)

Pending: TypeAlias = "dict[tuple[str, TopicPartition], CommittedOffset]"
"""Offsets of one producer's transaction, by group id and topic-partition."""


class TransactionalOffsets:
    """Pending offsets by producer id, and the newest epoch of each.

    Args:
        journal: where they are kept across restarts.
    """

    __slots__ = ("_epochs", "_journal", "_pending")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._epochs = {int(key[0]): int(epoch) for key, epoch in journal.all(EPOCHS).items()}
        self._pending: dict[int, Pending] = {}
        for (producer, group, topic, index), value in journal.all(PENDING).items():
            pending = self._pending.setdefault(int(producer), {})
            pending[str(group), (str(topic), int(index))] = CommittedOffset(**value)

    def is_ongoing(self, producer: ProducerIdAndEpoch) -> bool:
        """Whether the producer's transaction has offsets here already."""
        same = self._epochs.get(producer.producer_id) == producer.epoch
        return same and producer.producer_id in self._pending

    def check_epoch(self, producer: ProducerIdAndEpoch) -> ErrorCode:
        """Refuse an epoch that is older than the newest."""
        late = producer.epoch < self._epochs.get(producer.producer_id, producer.epoch)
        return ErrorCode.invalid_producer_epoch if late else ErrorCode.none

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Let a producer's transaction have offsets here, even none."""
        self._set_epoch(producer)
        self._pending.setdefault(producer.producer_id, {})

    def add(
        self,
        producer: ProducerIdAndEpoch,
        group_id: str,
        topic_partition: TopicPartition,
        offset: CommittedOffset,
    ) -> None:
        """Keep an offset until its transaction ends."""
        self.begin(producer)
        self._pending[producer.producer_id][group_id, topic_partition] = offset
        value = {
            "offset": offset.offset,
            "leader_epoch": offset.leader_epoch,
            "metadata": offset.metadata,
        }
        self._journal.put(PENDING, (producer.producer_id, group_id, *topic_partition), value)

    def _set_epoch(self, producer: ProducerIdAndEpoch) -> None:
        if self._epochs.get(producer.producer_id) != producer.epoch:
            self._epochs[producer.producer_id] = producer.epoch
            self._journal.put(EPOCHS, (producer.producer_id,), producer.epoch)

    def end(self, marker: EndTransactionMarker, groups: GroupCoordinator) -> None:
        """Apply or drop a producer's offsets; one that was committed later stands."""
        self._set_epoch(ProducerIdAndEpoch(marker.producer_id, marker.epoch))
        for (group_id, topic_partition), offset in self._pending.pop(
            marker.producer_id, {}
        ).items():
            offsets = groups.get_or_create(group_id).offsets
            if marker.commit and (
                topic_partition not in offsets or offsets[topic_partition].order < offset.order
            ):
                offsets[topic_partition] = offset
            self._journal.put(PENDING, (marker.producer_id, group_id, *topic_partition), None)

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether a transaction that may change an offset is open (KIP-447)."""
        return any((group_id, topic_partition) in pending for pending in self._pending.values())
