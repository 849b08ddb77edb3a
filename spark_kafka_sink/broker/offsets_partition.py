"""Offsets that are committed inside of transactions: pending until the marker comes (KIP-98).

As the part of Kafka's OffsetMetadataManager that deals with transactions. All groups share one
partition of the offsets topic; it has no log, only producers and what they left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.control import Marker
    from spark_kafka_sink.broker.group_offsets import CommittedOffset
    from spark_kafka_sink.broker.groups import Groups
    from spark_kafka_sink.broker.transaction import Claim, Place

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PLACE: Place = (OFFSETS_TOPIC, 0)

Pending: TypeAlias = "dict[tuple[str, Place], CommittedOffset]"
"""Offsets of one producer's transaction, by group id and topic-partition."""


class OffsetsPartition:
    """Pending offsets by producer id, and the newest epoch of each."""

    __slots__ = ("_epochs", "_pending")

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}
        self._pending: dict[int, Pending] = {}

    def is_ongoing(self, claim: Claim) -> bool:
        """Whether the producer's transaction has offsets here already."""
        same = self._epochs.get(claim.producer_id) == claim.epoch
        return same and claim.producer_id in self._pending

    def judge(self, claim: Claim) -> ErrorCode:
        """Refuse an epoch that is older than the newest."""
        late = claim.epoch < self._epochs.get(claim.producer_id, claim.epoch)
        return ErrorCode.invalid_producer_epoch if late else ErrorCode.none

    def begin(self, claim: Claim) -> None:
        """Let a producer's transaction have offsets here, even none."""
        self._epochs[claim.producer_id] = claim.epoch
        self._pending.setdefault(claim.producer_id, {})

    def add(self, claim: Claim, group_id: str, place: Place, offset: CommittedOffset) -> None:
        """Keep an offset until its transaction ends."""
        self.begin(claim)
        self._pending[claim.producer_id][group_id, place] = offset

    def end(self, marker: Marker, groups: Groups) -> None:
        """Apply or drop a producer's offsets; one that was committed later stands."""
        self._epochs[marker.producer_id] = marker.epoch
        for (group_id, place), offset in self._pending.pop(marker.producer_id, {}).items():
            offsets = groups.get(group_id).offsets
            if marker.commit and (place not in offsets or offsets[place].order < offset.order):
                offsets[place] = offset

    def is_unstable(self, group_id: str, place: Place) -> bool:
        """Whether a transaction that may change an offset is open (KIP-447)."""
        return any((group_id, place) in pending for pending in self._pending.values())
