"""Where each batch of a segment lies: 24 bytes a batch, found by halving."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from spark_kafka_sink.broker.storage.log_storage import BatchFacts


class BatchTable:
    """Batches of one segment by number, from 0; positions in bytes, timestamps in ms."""

    __slots__ = ("_ends", "_last_offsets", "_newest")

    def __init__(self) -> None:
        self._last_offsets = array("q")
        self._ends = array("q")
        self._newest = array("q")

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self._ends[-1] if self._ends else 0

    @property
    def last_offset(self) -> int | None:
        """The last batch's last offset."""
        return self._last_offsets[-1] if self._last_offsets else None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of all batches, -1 where there is none."""
        return self._newest[-1] if self._newest else -1

    def add(self, facts: BatchFacts) -> None:
        """Note the next batch."""
        newest = max(self.max_timestamp, facts.max_timestamp)
        self._ends.append(self.size + facts.size)
        self._last_offsets.append(facts.last_offset)
        self._newest.append(newest)

    def keep(self, count: int) -> None:
        """Forget the batches from number `count` on."""
        for column in (self._last_offsets, self._ends, self._newest):
            del column[count:]

    def facts(self, number: int, base_offset: int) -> BatchFacts:
        """What is known of a batch; its timestamp is that of the newest batch until then."""
        before = self._last_offsets[number - 1] + 1 if number else base_offset
        return BatchFacts(
            base_offset=before,
            last_offset=self._last_offsets[number],
            max_timestamp=self._newest[number],
            size=self._ends[number] - self.position(number),
        )

    def position(self, number: int) -> int:
        """Where a batch begins; for the number behind the last, where the segment ends."""
        return self._ends[number - 1] if number else 0

    def holding(self, offset: int) -> int:
        """The first batch that ends at or behind an offset; so many batches end before it."""
        return bisect_left(self._last_offsets, offset)

    def within(self, first: int, max_bytes: int) -> int:
        """The number behind the last batch, from `first` on, that ends within so many bytes."""
        return bisect_right(self._ends, self.position(first) + max_bytes, first)

    def first_at(self, timestamp: int) -> int:
        """The first batch with a timestamp as new as this one."""
        return bisect_left(self._newest, timestamp)

    def newest(self) -> int:
        """The first batch with the largest timestamp."""
        return bisect_left(self._newest, self.max_timestamp)
