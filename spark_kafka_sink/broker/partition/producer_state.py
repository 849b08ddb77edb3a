"""State of idempotent producers in one partition (KIP-98).

Like Kafka's class with the same name, `ProducerStateManager` stores the last five batches of each
producer id. Duplicate batches are detected by epoch and by first and last sequence. The content of
batches is not compared.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.record_batch import MAX_SEQUENCE, NO_SEQUENCE, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Container

    from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker


_MAX_CACHED_BATCHES = 5
"""Number of a producer's latest batches whose duplicates are detected, as in Kafka."""


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
class _ProducerStateEntry:
    """The state of a producer id: its newest epoch and the last batches of this epoch."""

    epoch: int
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=_MAX_CACHED_BATCHES))
    """Empty after a marker that started the epoch."""
    last_timestamp: int = -1
    """Milliseconds since 1970."""
    last_offset: int = -1
    """Base offset of the last batch or marker."""
    coordinator_epoch: int = -1
    """Coordinator epoch of the last marker, or -1 before the first marker."""
    is_partial: bool = False
    """True if the epoch is known only from a marker, and its batches might have been deleted: the
    next batch can have any sequence.
    """

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or -1 if the epoch has no records."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStateManager:
    """The state of all producer ids in one partition."""

    def __init__(self) -> None:
        self.entries: dict[int, _ProducerStateEntry] = {}
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
        return _order_error(_follows(entry.last_sequence, header.base_sequence))

    def remember(self, header: BatchHeader, base_offset: int, append_time: int) -> None:
        """Store a batch that was appended."""
        entry = self._entry_of_epoch(header.producer_id, header.producer_epoch)
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
        entry = self._entry_of_epoch(marker.producer_id, marker.epoch)
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
            batches = deque((kept[key] for key in sorted(kept)), _MAX_CACHED_BATCHES)
            last = max(kept)
            self.entries[producer_id] = replace(entry, batches=batches, last_offset=last)

    def _entry_of_epoch(self, producer_id: int, epoch: int) -> _ProducerStateEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = _ProducerStateEntry(epoch)
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


def _follows(last: int, first: int) -> bool:
    """Return True if sequence `first` directly follows `last`."""
    return first == (last + 1) & MAX_SEQUENCE
