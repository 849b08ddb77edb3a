"""A stretch of a partition's log, and the kind that lies in memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.broker.storage.batch_table import BatchTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.storage.log_storage import BatchFacts


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
