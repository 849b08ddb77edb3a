"""Transactions in one partition: open, ended, aborted, and being verified (KIP-98, KIP-890).

Corresponds to the transactional part of Kafka's ProducerStateManager and to its TransactionIndex.
Determines the last stable offset.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.producer_state import ProducerStateManager
    from spark_kafka_sink.kafka.records.record_batch import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransaction:
    """A completed transaction, with the offsets of its first record and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class _PendingVerification:
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


class LogTransactions:
    """Open transactions by producer id, and completed transactions that are still needed."""

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}
        self.verifying: dict[int, _PendingVerification] = {}
        self._verifying_before: dict[int, _PendingVerification] = {}
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

    def restore(self, old: LogTransactions, end: int) -> None:
        """Add the transactions of `old` that were open at the offset `end`.

        The log might no longer contain their first records.
        """
        self.ongoing |= {key: first for key, first in old.ongoing.items() if first < end}

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which all transactions have a replicated marker.

        This is the first offset of an open transaction, or the high watermark.
        """
        firsts = (ended.first_offset for ended in self._ended_from(high_watermark))
        return min((high_watermark, *self.ongoing.values(), *firsts))

    def aborted_between(self, start: int, end: int) -> list[EndedTransaction]:
        """Return the aborted transactions that overlap [`start`, `end`), in marker order."""
        first = bisect_left(self._aborted, start, key=lambda ended: ended.last_offset)
        return [ended for ended in self._aborted[first:] if ended.first_offset < end]

    def drop_replicated(self, high_watermark: int) -> None:
        """Drop the completed transactions whose markers are fully replicated."""
        self._unreplicated = self._ended_from(high_watermark)

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
        """Register a batch that is being verified or could not be appended.

        See `_PendingVerification`.
        """
        pending = self.verifying.get(header.producer_id)
        lowest = header.base_sequence
        if pending is not None and pending.epoch == header.producer_epoch:
            lowest = min(lowest, pending.lowest_sequence)
        if pending is None or header.producer_epoch >= pending.epoch:
            epoch = header.producer_epoch
            self.verifying[header.producer_id] = _PendingVerification(epoch, lowest, starts_at_zero)

    def _ended_from(self, high_watermark: int) -> list[EndedTransaction]:
        """Return the completed transactions whose markers are not fully replicated."""
        return [ended for ended in self._unreplicated if ended.last_offset >= high_watermark]
