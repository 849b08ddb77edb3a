"""Allocation of producer ids in blocks that the journal stores; Kafka's ``ProducerIdManager``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.storage.journal import Journal


BLOCK = 1_000
"""Number of producer ids per allocated block, as in Kafka. A restart skips unused ids."""
_FOREIGN = 1 << 62
"""Producer ids from here on were not allocated by a broker."""
_PRODUCER_IDS = "producer ids"
_NEXT_BLOCK = ("next block",)


class ProducerIdManager:
    """Allocates producer ids that no earlier broker at the same address has allocated.

    If two producers had the same id, the batches of one could be acknowledged as duplicates of the
    other's. The ids therefore start at the current time in microseconds, or after the last block
    in the journal if that is higher. So they remain unique if the journal is lost or a backup of
    it is restored, and if the clock was set back.
    """

    def __init__(self, journal: Journal, wall_ms: int) -> None:
        self._journal = journal
        stored = int(journal.all(_PRODUCER_IDS).get(_NEXT_BLOCK, 0))
        self._next = self._end = max(stored, wall_ms * 1_000)

    def skip_used(self, producer_ids: Iterable[int]) -> None:
        """Skip ids that logs contain, even if a machine crash has lost their journal entry."""
        used = (producer_id + 1 for producer_id in producer_ids if producer_id < _FOREIGN)
        self._next = self._end = max([self._end, *used])

    def next(self) -> int:
        """Return a new producer id.

        Raises:
            OSError: the next block cannot be stored. No id is allocated.
        """
        if self._next == self._end:
            self._journal.put(_PRODUCER_IDS, _NEXT_BLOCK, self._end + BLOCK)
            self._end += BLOCK
        self._next += 1
        return self._next - 1
