"""A segment of a partition's log, its table of batches, and the in-memory kind."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.broker.storage.log_storage import BatchFacts

if TYPE_CHECKING:
    from collections.abc import Sequence


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


class LogSegment(Protocol):
    """Batches from `base_offset` on, until the next segment begins."""

    base_offset: int
    table: BatchTable
    first_timestamp: int | None
    """Largest timestamp of the first batch, in milliseconds: segment.ms counts from it."""

    @property
    def modified_ms(self) -> int:
        """When a batch was last written, in milliseconds."""
        ...

    @property
    def index_entries(self) -> int:
        """Entries of its offset index."""
        ...

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Keep one batch."""
        ...

    def read(self, first: int, end: int) -> list[memoryview]:
        """The bytes of the batches from number `first` to before `end`, in any pieces."""
        ...

    def truncate(self, count: int) -> None:
        """Keep the first `count` batches only."""
        ...

    def seal(self) -> None:
        """Called when the next segment begins."""
        ...

    def flush(self) -> None:
        """Make sure that everything outlives the machine."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...

    def delete(self) -> None:
        """Let go of the data."""
        ...


class MemorySegment:
    """Batches as they came, each a piece of its own. Readers get views of them, never copies."""

    __slots__ = ("_batches", "base_offset", "first_timestamp", "modified_ms", "table")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.table = BatchTable()
        self.first_timestamp: int | None = None
        self.modified_ms = 0
        self._batches: list[memoryview] = []

    @property
    def index_entries(self) -> int:
        """None: numbers are enough here."""
        return 0

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """See `LogSegment`."""
        self._batches.append(memoryview(b"".join(parts)))
        self.modified_ms = time.time_ns() // 1_000_000
        self.table.add(facts)
        if self.first_timestamp is None:
            self.first_timestamp = facts.max_timestamp

    def read(self, first: int, end: int) -> list[memoryview]:
        """See `LogSegment`."""
        return self._batches[first:end]

    def truncate(self, count: int) -> None:
        """See `LogSegment`."""
        del self._batches[count:]
        self.table.keep(count)

    def seal(self) -> None:
        """See `LogSegment`."""

    def flush(self) -> None:
        """See `LogSegment`."""

    def close(self) -> None:
        """See `LogSegment`."""

    def delete(self) -> None:
        """See `LogSegment`."""
        self._batches.clear()
