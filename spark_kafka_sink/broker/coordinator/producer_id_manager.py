"""Producer ids, given out once each, also by brokers that come later."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.journal import Journal

FIRST = 1_000
BLOCK = 1_000
"""Ids taken at a time, as Kafka does; a broker that ends leaves the rest of its block unused."""
_KIND = "producer ids"
_KEY = ("next block",)


class ProducerIdManager:
    """Counts on from where the journal says that an earlier broker may have been."""

    __slots__ = ("_end", "_journal", "_next")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = self._end = int(journal.all(_KIND).get(_KEY, FIRST))

    def next(self) -> int:
        """An id that nobody has had."""
        if self._next == self._end:
            self._end += BLOCK
            self._journal.put(_KIND, _KEY, self._end)
        self._next += 1
        return self._next - 1
