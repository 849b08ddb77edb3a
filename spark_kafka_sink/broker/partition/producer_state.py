"""State of idempotent producers and of transactions in one partition (KIP-98).

What a partition remembers about idempotent producers (KIP-98).

As Kafka's ProducerStateManager: the last five batches of each producer id. A repeated batch is
known by its epoch and its first and last sequence; its content is never compared.

The transactions of one partition: open ones, aborted ones, and how far all is decided.

As the transactional part of Kafka's ProducerStateManager, with its TransactionIndex.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.records.decoder import EndTransactionMarker
    from spark_kafka_sink.records.record_batch import BatchHeader


REMEMBERED = 5
MAX_SEQUENCE = 2**31 - 1
NO_SEQUENCE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetadata:
    """A batch in the log: its sequences, first offset, and append time in milliseconds or -1."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    append_time: int


Verdict: TypeAlias = BatchMetadata | ErrorCode
"""The batch that this one repeats, or the error; ErrorCode.none means: append it."""


@dataclass(slots=True)
class ProducerStateEntry:
    """One producer id: its newest epoch and that epoch's last batches.

    There are none behind a marker that began the epoch. `last_timestamp` in milliseconds;
    `coordinator_epoch` is that of the last marker, -1 before the first.
    """

    epoch: int
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    last_timestamp: int = -1
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, -1 where the epoch has none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStateManager:
    """Producer ids of one partition."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[int, ProducerStateEntry] = {}

    def check_sequence(self, header: BatchHeader) -> Verdict:
        """Decide about a batch with a producer id before it is appended.

        INVALID_PRODUCER_EPOCH is an epoch older than the newest; OUT_OF_ORDER_SEQUENCE_NUMBER a
        gap, or a new epoch that does not begin at 0. An id that nobody remembers may begin
        anywhere, as its history may be gone.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return ErrorCode.none
        if header.producer_epoch < entry.epoch:
            return ErrorCode.invalid_producer_epoch
        if header.producer_epoch > entry.epoch:
            return _unless(header.base_sequence == 0)
        last = last_sequence(header)
        for batch in entry.batches:
            if (batch.first_sequence, batch.last_sequence) == (header.base_sequence, last):
                return batch
        return _unless(follows(entry.last_sequence, header.base_sequence))

    def remember(self, header: BatchHeader, base_offset: int, append_time: int) -> None:
        """Note a batch that was appended."""
        entry = self._entry(header.producer_id, header.producer_epoch)
        entry.last_timestamp = header.max_timestamp
        entry.batches.append(
            BatchMetadata(
                first_sequence=header.base_sequence,
                last_sequence=last_sequence(header),
                base_offset=base_offset,
                append_time=append_time,
            )
        )

    def end_transaction(self, marker: EndTransactionMarker, now_ms: int) -> None:
        """Note a marker: its epoch is the newest, and a new one begins at sequence 0."""
        entry = self._entry(marker.producer_id, marker.epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = now_ms

    def _entry(self, producer_id: int, epoch: int) -> ProducerStateEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerStateEntry(epoch)
        elif entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches.clear()
        return entry

    def truncate(self, end_offset: int) -> None:
        """Forget the batches from an offset on, and producers of which nothing is left."""
        for producer_id, entry in list(self.entries.items()):
            kept = [batch for batch in entry.batches if batch.base_offset < end_offset]
            entry.batches = deque(kept, maxlen=REMEMBERED)
            if not kept:
                del self.entries[producer_id]


def _unless(in_order: bool) -> ErrorCode:
    return ErrorCode.none if in_order else ErrorCode.out_of_order_sequence_number


def last_sequence(header: BatchHeader) -> int:
    """Sequence of a batch's last record; behind 2^31-1 comes 0."""
    return (header.base_sequence + header.last_offset_delta) & MAX_SEQUENCE


def follows(last: int, first: int) -> bool:
    """Whether sequence `first` comes right behind `last`."""
    return first == (last + 1) & MAX_SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """From its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Verification:
    """The first batch of a producer about which the coordinator was asked (KIP-890).

    Batches behind it may not overtake it when it has to be sent again.
    """

    epoch: int
    lowest_sequence: int
    starts_at_zero: bool

    def admits(self, header: BatchHeader, producers: ProducerStateManager) -> bool:
        """Whether a batch comes in its turn; in transactions V2 a new producer begins at 0."""
        first = header.base_sequence
        if header.producer_epoch == self.epoch and first > self.lowest_sequence:
            return False
        entry = producers.entries.get(header.producer_id)
        is_new = entry is None or not entry.batches
        return first == 0 or not (self.starts_at_zero and is_new)


class PartitionTransactions:
    """Open transactions by producer id, with the offsets of their first records."""

    __slots__ = ("_aborted", "_unreplicated", "ongoing", "verifying")

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}
        self.verifying: dict[int, Verification] = {}
        self._aborted: list[EndedTransaction] = []
        self._unreplicated: list[EndedTransaction] = []

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Note a transactional batch; only the first of a transaction matters."""
        self.ongoing.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """Note a marker; one without records before it changes nothing."""
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return
        ended = EndedTransaction(
            producer_id=producer_id, first_offset=first, last_offset=marker_offset
        )
        self._unreplicated.append(ended)
        if not commit:
            self._aborted.append(ended)

    def stable_offset(self, high_watermark: int) -> int:
        """The last stable offset: below it every transaction has its marker, on all replicas."""
        firsts = (
            ended.first_offset
            for ended in self._unreplicated
            if ended.last_offset >= high_watermark
        )
        return min((high_watermark, *self.ongoing.values(), *firsts))

    def aborted_between(self, start: int, end: int) -> list[EndedTransaction]:
        """Aborted transactions that touch offsets from `start` up to `end`, in order of markers."""
        first = bisect_left(self._aborted, start, key=lambda ended: ended.last_offset)
        return [ended for ended in self._aborted[first:] if ended.first_offset < end]

    def replicated(self, high_watermark: int) -> None:
        """Drop the ended transactions whose markers are on all replicas."""
        self._unreplicated = [t for t in self._unreplicated if t.last_offset >= high_watermark]

    def forget_before(self, offset: int) -> None:
        """Drop the aborted transactions that lie before the log's start."""
        del self._aborted[: bisect_left(self._aborted, offset, key=lambda ended: ended.last_offset)]

    def verify(self, header: BatchHeader, *, starts_at_zero: bool) -> None:
        """Note that the coordinator is asked about a batch."""
        noted = self.verifying.get(header.producer_id)
        lowest = header.base_sequence
        if noted is not None and noted.epoch == header.producer_epoch:
            lowest = min(lowest, noted.lowest_sequence)
        if noted is None or header.producer_epoch >= noted.epoch:
            epoch = header.producer_epoch
            self.verifying[header.producer_id] = Verification(epoch, lowest, starts_at_zero)
