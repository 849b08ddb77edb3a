"""A segment in memory: the table of its batches, which a segment on disk also has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.batch_table import BatchTable
from spark_kafka_sink.broker.storage.log_storage import UNLIMITED, BatchFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.config.topic_config import LogConfig

_INDEX_ENTRY_BYTES = 8
_MAX_RELATIVE = 2**31 - 1
"""Largest offset and position relative to a segment's base that an index entry can store."""


class LogSegment:
    """Batches from `base_offset` up to the start of the next segment.

    This class stores each batch in a buffer in memory. Readers get views of the buffers.
    `DiskSegment` stores batches in files.
    """

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.table = BatchTable()
        self.first_timestamp: int | None = None
        """Largest timestamp of the first batch in milliseconds, from which segment.ms is counted.
        """
        self._modified_ms = 0
        self._batches: list[memoryview] = []

    @property
    def modified_ms(self) -> int:
        """Time of the last write, in milliseconds."""
        return self._modified_ms

    @property
    def index_entries(self) -> int:
        """Number of entries in the offset index, or 0 if there is no index."""
        return 0

    def is_full(self, facts: BatchFacts, config: LogConfig, max_bytes: int) -> bool:
        """Return True if a new segment is needed for a batch (Kafka's LogSegment.shouldRoll)."""
        if not len(self.table):
            return False
        return (
            self.table.size + facts.size > max_bytes
            or facts.max_timestamp - (self.first_timestamp or 0) > config.segment_ms
            or (self.index_entries + 1) * _INDEX_ENTRY_BYTES > config.index_bytes
            or facts.last_offset - self.base_offset > _MAX_RELATIVE
        )

    def is_expired(self, now_ms: int, keep_ms: int) -> bool:
        """Return True if the segment exceeds retention.ms, as in Kafka.

        For segments without timestamps, the time of the last write is used, as in Kafka's
        LogSegment.largestTimestamp.
        """
        if keep_ms == UNLIMITED or not len(self.table):
            return False
        newest = self.table.max_timestamp
        return now_ms - (newest if newest >= 0 else self.modified_ms) > keep_ms

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append one batch."""
        self._batches.append(memoryview(b"".join(parts)))
        self._modified_ms = time.time_ns() // 1_000_000
        self.register(facts)

    def register(self, facts: BatchFacts) -> None:
        """Add the next batch to the table."""
        self.table.add(facts)
        if self.first_timestamp is None:
            self.first_timestamp = facts.max_timestamp

    def read(self, first: int, end: int) -> list[memoryview]:
        """Return the bytes of the batches `first` to `end` (exclusive), in one or more pieces."""
        return self._batches[first:end]

    def truncate(self, count: int) -> None:
        """Truncate the segment to its first `count` batches."""
        del self._batches[count:]
        self.table.truncate(count)

    def seal(self) -> None:
        """Complete the segment before the next one is created."""

    def flush(self) -> None:
        """Make all data survive a machine crash, if the segment supports it."""

    def close(self) -> None:
        """Close the files, if any."""

    def delete(self) -> None:
        """Delete the data."""
        self._batches.clear()
