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
    from spark_kafka_sink.broker.coordinator.group_coordinator import Groups
    from spark_kafka_sink.broker.coordinator.transaction_metadata import Place
    from spark_kafka_sink.broker.partition.control_batch import Marker
    from spark_kafka_sink.broker.storage.journal import Journal

PENDING = "pending_offset"
EPOCHS = "offset_epoch"
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PLACE: Place = (OFFSETS_TOPIC, 0)

Pending: TypeAlias = "dict[tuple[str, Place], CommittedOffset]"
"""Offsets of one producer's transaction, by group id and topic-partition."""


class OffsetsPartition:
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

    def is_ongoing(self, claim: ProducerIdAndEpoch) -> bool:
        """Whether the producer's transaction has offsets here already."""
        same = self._epochs.get(claim.producer_id) == claim.epoch
        return same and claim.producer_id in self._pending

    def judge(self, claim: ProducerIdAndEpoch) -> ErrorCode:
        """Refuse an epoch that is older than the newest."""
        late = claim.epoch < self._epochs.get(claim.producer_id, claim.epoch)
        return ErrorCode.invalid_producer_epoch if late else ErrorCode.none

    def begin(self, claim: ProducerIdAndEpoch) -> None:
        """Let a producer's transaction have offsets here, even none."""
        self._set_epoch(claim)
        self._pending.setdefault(claim.producer_id, {})

    def add(
        self, claim: ProducerIdAndEpoch, group_id: str, place: Place, offset: CommittedOffset
    ) -> None:
        """Keep an offset until its transaction ends."""
        self.begin(claim)
        self._pending[claim.producer_id][group_id, place] = offset
        value = {
            "offset": offset.offset,
            "leader_epoch": offset.leader_epoch,
            "metadata": offset.metadata,
        }
        self._journal.put(PENDING, (claim.producer_id, group_id, *place), value)

    def _set_epoch(self, claim: ProducerIdAndEpoch) -> None:
        if self._epochs.get(claim.producer_id) != claim.epoch:
            self._epochs[claim.producer_id] = claim.epoch
            self._journal.put(EPOCHS, (claim.producer_id,), claim.epoch)

    def end(self, marker: Marker, groups: Groups) -> None:
        """Apply or drop a producer's offsets; one that was committed later stands."""
        self._set_epoch(ProducerIdAndEpoch(marker.producer_id, marker.epoch))
        for (group_id, place), offset in self._pending.pop(marker.producer_id, {}).items():
            offsets = groups.get(group_id).offsets
            if marker.commit and (place not in offsets or offsets[place].order < offset.order):
                offsets[place] = offset
            self._journal.put(PENDING, (marker.producer_id, group_id, *place), None)

    def is_unstable(self, group_id: str, place: Place) -> bool:
        """Whether a transaction that may change an offset is open (KIP-447)."""
        return any((group_id, place) in pending for pending in self._pending.values())
