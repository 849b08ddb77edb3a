"""State of idempotent producers and of transactions in one partition (KIP-98).

Like Kafka's class with the same name, `ProducerStateManager` stores the last five batches of each
producer id. Duplicate batches are detected by epoch and by first and last sequence. The content of
batches is not compared.

`PartitionTransactions` corresponds to the transactional part of Kafka's ProducerStateManager and to
its TransactionIndex. It stores the open and aborted transactions, and determines the last stable
offset.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from kio.schema.errors import ErrorCode

from spark_kafka_sink.kafka.records.record_batch import MAX_SEQUENCE, NO_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Container

    from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker
    from spark_kafka_sink.kafka.records.record_batch import BatchHeader


MAX_CACHED_BATCHES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetadata:
    """A batch in the log, with sequences, base offset, and append time in milliseconds (or -1)."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    append_time: int


Verdict: TypeAlias = BatchMetadata | ErrorCode
"""The original of a duplicate batch, or an error, which is none if the batch can be appended."""


@dataclass(slots=True)
class ProducerStateEntry:
    """The state of a producer id: its newest epoch and the last batches of this epoch.

    `batches` is empty after a marker that started the epoch. `last_timestamp` is in milliseconds.
    `last_offset` is the base offset of the last batch or marker.
    `coordinator_epoch` is the coordinator epoch of the last marker, or -1 before the first marker.
    `is_partial` is True if the epoch is known only from a marker, and its batches might have been
    deleted: the next batch can have any sequence.
    """

    epoch: int
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=MAX_CACHED_BATCHES))
    last_timestamp: int = -1
    last_offset: int = -1
    coordinator_epoch: int = -1
    is_partial: bool = False

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or -1 if the epoch has no records."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStateManager:
    """The state of all producer ids in one partition."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerStateEntry] = {}
        self._ends: dict[int, int] = {}
        """The last offset of each producer id at the last call of `expire`."""

    def expire(self, ongoing: Container[int]) -> None:
        """Delete the producer ids without batches or markers since the previous call.

        Args:
            ongoing: producer ids with an open transaction, which are retained.
        """
        for producer_id, end in self._ends.items():
            entry = self.entries.get(producer_id)
            if entry is not None and entry.last_offset == end and producer_id not in ongoing:
                del self.entries[producer_id]
        self._ends = {key: entry.last_offset for key, entry in self.entries.items()}

    def check_sequence(self, header: BatchHeader) -> Verdict:
        """Check the epoch and sequence of a batch with a producer id.

        The errors are INVALID_PRODUCER_EPOCH for an epoch older than the newest epoch, and
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap or a new epoch that does not start at 0. An unknown
        producer id can start at any sequence, because its state might have been deleted.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return ErrorCode.none
        if header.producer_epoch < entry.epoch:
            return ErrorCode.invalid_producer_epoch
        if header.producer_epoch > entry.epoch:
            return _order_error(header.base_sequence == 0)
        if entry.is_partial and not entry.batches:
            return ErrorCode.none
        last = last_sequence(header)
        for batch in entry.batches:
            if (batch.first_sequence, batch.last_sequence) == (header.base_sequence, last):
                return batch
        return _order_error(follows(entry.last_sequence, header.base_sequence))

    def remember(self, header: BatchHeader, base_offset: int, append_time: int) -> None:
        """Store a batch that was appended."""
        entry = self._entry(header.producer_id, header.producer_epoch)
        entry.last_timestamp = header.max_timestamp
        entry.last_offset = base_offset
        entry.batches.append(
            BatchMetadata(
                first_sequence=header.base_sequence,
                last_sequence=last_sequence(header),
                base_offset=base_offset,
                append_time=append_time,
            )
        )

    def end_transaction(
        self, marker: EndTransactionMarker, offset: int, now_ms: int, *, lacks_batches: bool
    ) -> None:
        """Store the marker at an offset, whose epoch becomes the newest.

        A new epoch starts at sequence 0. With `lacks_batches`, the batches of an unknown producer
        might have been deleted.
        """
        is_partial = lacks_batches and marker.producer_id not in self.entries
        entry = self._entry(marker.producer_id, marker.epoch)
        entry.is_partial |= is_partial
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = now_ms
        entry.last_offset = offset

    def restore(self, old: ProducerStateManager, end: int) -> None:
        """Add the state of `old` below the offset `end` that the log no longer contains."""
        for producer_id, entry in old.entries.items():
            current = self.entries.get(producer_id)
            if entry.last_offset < end:
                self.entries[producer_id] = entry
                continue
            kept = {batch.base_offset: batch for batch in entry.batches if batch.base_offset < end}
            if not kept or (current is not None and current.epoch != entry.epoch):
                continue
            if current is not None:
                kept |= {batch.base_offset: batch for batch in current.batches}
            batches = deque((kept[key] for key in sorted(kept)), MAX_CACHED_BATCHES)
            last = max(kept)
            self.entries[producer_id] = replace(entry, batches=batches, last_offset=last)

    def _entry(self, producer_id: int, epoch: int) -> ProducerStateEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerStateEntry(epoch)
        elif entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches.clear()
            entry.is_partial = False
        return entry


def _order_error(in_order: bool) -> ErrorCode:
    return ErrorCode.none if in_order else ErrorCode.out_of_order_sequence_number


def last_sequence(header: BatchHeader) -> int:
    """Return the sequence of a batch's last record. The sequence after 2^31-1 is 0."""
    return (header.base_sequence + header.last_offset_delta) & MAX_SEQUENCE


def follows(last: int, first: int) -> bool:
    """Return True if sequence `first` directly follows `last`."""
    return first == (last + 1) & MAX_SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A completed transaction, with the offsets of its first record and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Verification:
    """The first batch of a producer whose verification by the coordinator is pending (KIP-890).

    Also used for a batch that the storage could not append. If the batch is resent, no later batch
    of the producer may be appended before it.
    """

    epoch: int
    lowest_sequence: int
    starts_at_zero: bool

    def admits(self, header: BatchHeader, producers: ProducerStateManager) -> bool:
        """Return True if a batch is in order. With transactions V2, new producers start at 0."""
        first = header.base_sequence
        if header.producer_epoch == self.epoch and first > self.lowest_sequence:
            return False
        entry = producers.entries.get(header.producer_id)
        is_new = entry is None or not entry.batches
        return first == 0 or not (self.starts_at_zero and is_new)


class PartitionTransactions:
    """Open transactions by producer id, and completed transactions that are still needed."""

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}
        self.verifying: dict[int, Verification] = {}
        self._verifying_before: dict[int, Verification] = {}
        self._aborted: list[EndedTransaction] = []
        self._unreplicated: list[EndedTransaction] = []

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Register the transaction of a batch, unless it is already registered."""
        self.ongoing.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """Complete a transaction. Markers of transactions without records have no effect."""
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return
        ended = EndedTransaction(
            producer_id=producer_id, first_offset=first, last_offset=marker_offset
        )
        self._unreplicated.append(ended)
        if not commit:
            self._aborted.append(ended)

    def restore(self, old: PartitionTransactions, end: int) -> None:
        """Add the transactions of `old` that were open at the offset `end`.

        The log might no longer contain their first records.
        """
        self.ongoing |= {key: first for key, first in old.ongoing.items() if first < end}

    def stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which all transactions have a replicated marker.

        This is the first offset of an open transaction, or the high watermark.
        """
        firsts = (
            ended.first_offset
            for ended in self._unreplicated
            if ended.last_offset >= high_watermark
        )
        return min((high_watermark, *self.ongoing.values(), *firsts))

    def aborted_between(self, start: int, end: int) -> list[EndedTransaction]:
        """Return the aborted transactions that overlap [`start`, `end`), in marker order."""
        first = bisect_left(self._aborted, start, key=lambda ended: ended.last_offset)
        return [ended for ended in self._aborted[first:] if ended.first_offset < end]

    def drop_replicated(self, high_watermark: int) -> None:
        """Drop the completed transactions whose markers are fully replicated."""
        self._unreplicated = [t for t in self._unreplicated if t.last_offset >= high_watermark]

    def forget_before(self, offset: int) -> None:
        """Drop the aborted transactions that ended before the log's start."""
        del self._aborted[: bisect_left(self._aborted, offset, key=lambda ended: ended.last_offset)]

    def expire_verifications(self) -> None:
        """Delete the pending verifications that have not changed since the previous call."""
        for producer_id, pending in self._verifying_before.items():
            if self.verifying.get(producer_id) is pending:
                del self.verifying[producer_id]
        self._verifying_before = dict(self.verifying)

    def verify(self, header: BatchHeader, *, starts_at_zero: bool) -> None:
        """Register a batch that is being verified or could not be appended; see `Verification`."""
        pending = self.verifying.get(header.producer_id)
        lowest = header.base_sequence
        if pending is not None and pending.epoch == header.producer_epoch:
            lowest = min(lowest, pending.lowest_sequence)
        if pending is None or header.producer_epoch >= pending.epoch:
            epoch = header.producer_epoch
            self.verifying[header.producer_id] = Verification(epoch, lowest, starts_at_zero)
