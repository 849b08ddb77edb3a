"""The transactions of one partition: open ones, aborted ones, and how far all is decided.

As the transactional part of Kafka's ProducerStateManager, with its TransactionIndex.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.producer_state_manager import ProducerStateManager
    from spark_kafka_sink.records.record_batch import BatchHeader


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
