"""A segment of a log: its interface, its table of batches, and the segment in memory."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.broker.storage.log_storage import BatchFacts

if TYPE_CHECKING:
    from collections.abc import Sequence


class BatchTable:
    """The batches of one segment by number, from 0; positions in bytes, timestamps in ms."""

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
        """The last offset of the last batch; None without batches."""
        return self._last_offsets[-1] if self._last_offsets else None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of all batches, -1 if there is none."""
        return self._newest[-1] if self._newest else -1

    def add(self, facts: BatchFacts) -> None:
        """Add the next batch."""
        newest = max(self.max_timestamp, facts.max_timestamp)
        self._ends.append(self.size + facts.size)
        self._last_offsets.append(facts.last_offset)
        self._newest.append(newest)

    def keep(self, count: int) -> None:
        """Drop the batches from number `count` on."""
        for column in (self._last_offsets, self._ends, self._newest):
            del column[count:]

    def facts(self, number: int, base_offset: int) -> BatchFacts:
        """Return the facts of a batch; `max_timestamp` is the largest one up to this batch."""
        before = self._last_offsets[number - 1] + 1 if number else base_offset
        return BatchFacts(
            base_offset=before,
            last_offset=self._last_offsets[number],
            max_timestamp=self._newest[number],
            size=self._ends[number] - self.position(number),
        )

    def position(self, number: int) -> int:
        """Return where a batch starts; for the number after the last batch, the segment's size."""
        return self._ends[number - 1] if number else 0

    def holding(self, offset: int) -> int:
        """Return the number of the first batch that ends at or after an offset.

        This is also the number of batches that end before the offset.
        """
        return bisect_left(self._last_offsets, offset)

    def within(self, first: int, max_bytes: int) -> int:
        """Return the number after the last batch, from `first` on, that ends within `max_bytes`."""
        return bisect_right(self._ends, self.position(first) + max_bytes, first)

    def first_at(self, timestamp: int) -> int:
        """Return the number of the first batch whose timestamp is at least this one."""
        return bisect_left(self._newest, timestamp)

    def newest(self) -> int:
        """Return the number of the first batch with the largest timestamp."""
        return bisect_left(self._newest, self.max_timestamp)


class LogSegment(Protocol):
    """Batches from `base_offset` up to the start of the next segment."""

    base_offset: int
    table: BatchTable
    first_timestamp: int | None
    """Largest timestamp of the first batch, in milliseconds: segment.ms is measured from it."""

    @property
    def modified_ms(self) -> int:
        """Time of the last write, in milliseconds."""
        ...

    @property
    def index_entries(self) -> int:
        """Number of entries in the offset index."""
        ...

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append one batch."""
        ...

    def read(self, first: int, end: int) -> list[memoryview]:
        """Return the bytes of the batches from number `first` to before `end`, in any split."""
        ...

    def truncate(self, count: int) -> None:
        """Keep the first `count` batches only."""
        ...

    def seal(self) -> None:
        """Complete the segment, before the next one is created."""
        ...

    def flush(self) -> None:
        """Make everything survive a crash of the machine."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...

    def delete(self) -> None:
        """Delete the data."""
        ...


class MemorySegment:
    """Batches in memory, one buffer each. Readers get views of the buffers, not copies."""

    __slots__ = ("_batches", "base_offset", "first_timestamp", "modified_ms", "table")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.table = BatchTable()
        self.first_timestamp: int | None = None
        self.modified_ms = 0
        self._batches: list[memoryview] = []

    @property
    def index_entries(self) -> int:
        """0: there is no index in memory."""
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
