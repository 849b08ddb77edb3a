"""The index files of a segment, with the entries of Kafka's ``OffsetIndex`` and ``TimeIndex``.

They are intended for Kafka's tools. The broker does not read them, because it has a complete table
of batches in memory.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from spark_kafka_sink.broker.storage.file_handles import FileHandles
    from spark_kafka_sink.broker.storage.log_storage import BatchFacts


_OFFSET_ENTRY = Struct(">ii")
"""Offset relative to the segment's base offset, and byte position of its batch."""
_TIME_ENTRY = Struct(">qi")
"""Timestamp in milliseconds, and the relative offset of the batch with this timestamp."""


class _IndexFile:
    """A file of fixed-size entries, opened when the first entry is written."""

    def __init__(self, path: Path, entry: Struct, handles: FileHandles) -> None:
        self.path = path
        self._entry = entry
        self._handles = handles
        self._flushed = 0
        self.count = 0

    def add(self, *values: int) -> None:
        """Write one entry."""
        os.pwrite(self._descriptor(), self._entry.pack(*values), self.count * self._entry.size)
        self.count += 1

    def truncate(self, count: int) -> None:
        """Truncate the file to the first `count` entries."""
        self.count = count
        self._flushed = min(self._flushed, count)
        os.ftruncate(self._descriptor(), count * self._entry.size)

    def flush(self) -> None:
        """Sync the file if entries were written since the last flush."""
        if self.count != self._flushed:
            os.fsync(self._descriptor())
            self._flushed = self.count

    def close(self) -> None:
        """Close the file."""
        self._handles.close(self.path)

    def _descriptor(self) -> int:
        return self._handles.get(self.path, create=True)


class SegmentIndexes:
    """The offset index and the time index of one segment.

    Args:
        folder: the partition's folder.
        base_offset: the segment's base offset.
        interval: index.interval.bytes, the minimum number of batch bytes between two index entries.
        handles: the open files of the data folder.
    """

    def __init__(self, folder: Path, base_offset: int, interval: int, handles: FileHandles) -> None:
        name = f"{base_offset:020d}"
        self.offsets = _IndexFile(folder / f"{name}.index", _OFFSET_ENTRY, handles)
        self.times = _IndexFile(folder / f"{name}.timeindex", _TIME_ENTRY, handles)
        self._files = (self.offsets, self.times)
        self._base = base_offset
        self._interval = interval
        self.reset()

    def reset(self) -> None:
        """Restart at the segment's first batch. The entries on disk are overwritten later."""
        self.offsets.count = self.times.count = 0
        self._since = 0
        self._newest = (-1, self._base)
        self._indexed_time = -1

    def add_batch(self, position: int, facts: BatchFacts) -> None:
        """Index a batch that starts at byte `position`."""
        if facts.max_timestamp > self._newest[0]:
            self._newest = (facts.max_timestamp, facts.last_offset)
        if self._since > self._interval:
            self.offsets.add(facts.last_offset - self._base, position)
            self.add_time()
            self._since = 0
        self._since += facts.size

    def add_time(self) -> None:
        """Write a time entry if the largest timestamp has grown since the last entry."""
        timestamp, offset = self._newest
        if timestamp > self._indexed_time:
            self.times.add(timestamp, offset - self._base)
            self._indexed_time = timestamp

    def trim(self) -> None:
        """Truncate both files after the last written entry."""
        for index in self._files:
            index.truncate(index.count)

    def flush(self) -> None:
        """Sync both files."""
        for index in self._files:
            index.flush()

    def close(self) -> None:
        """Close both files."""
        for index in self._files:
            index.close()

    def delete(self) -> None:
        """Delete both files."""
        self.close()
        for index in self._files:
            index.path.unlink(missing_ok=True)
