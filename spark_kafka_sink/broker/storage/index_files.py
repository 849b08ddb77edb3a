"""Kafka's sparse indexes beside a segment, entry by entry as Kafka writes them.

Source: Kafka's ``OffsetIndex`` and ``TimeIndex``. Nothing is read back from them here: they are
made for Kafka's own tools, as this broker keeps a full table of batches.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from spark_kafka_sink.broker.storage.file_handles import FileHandles

OFFSET_ENTRY: Final = Struct(">ii")
"""Offset relative to the segment's base, and the position of its batch in bytes."""
TIME_ENTRY: Final = Struct(">qi")
"""Timestamp in milliseconds, and the relative offset of the batch that brought it."""


class IndexFile:
    """A file of entries of one size, opened when the first one is written."""

    __slots__ = ("_entry", "_flushed", "_handles", "count", "path")

    def __init__(self, path: Path, entry: Struct, handles: FileHandles) -> None:
        self.path = path
        self._entry = entry
        self._handles = handles
        self._flushed = 0
        self.count = 0

    def add(self, *values: int) -> None:
        """Write one entry."""
        os.pwrite(
            self._handles.get(self.path), self._entry.pack(*values), self.count * self._entry.size
        )
        self.count += 1

    def keep(self, count: int) -> None:
        """Drop the entries from number `count` on, and whatever else the file holds."""
        self.count = count
        self._flushed = min(self._flushed, count)
        os.ftruncate(self._handles.get(self.path), count * self._entry.size)

    def flush(self) -> None:
        """Sync the entries that are new."""
        if self.count != self._flushed:
            os.fsync(self._handles.get(self.path))
            self._flushed = self.count

    def close(self) -> None:
        """Let go of the file."""
        self._handles.close(self.path)


class SegmentIndexes:
    """The offset index and the time index of one segment.

    Args:
        folder: the partition's.
        base_offset: the segment's.
        interval: index.interval.bytes; at most one entry of each per so many bytes and batch.
        handles: the folder's open files.
    """

    __slots__ = ("_base", "_indexed_time", "_interval", "_newest", "_since", "offsets", "times")

    def __init__(self, folder: Path, base_offset: int, interval: int, handles: FileHandles) -> None:
        name = f"{base_offset:020d}"
        self.offsets = IndexFile(folder / f"{name}.index", OFFSET_ENTRY, handles)
        self.times = IndexFile(folder / f"{name}.timeindex", TIME_ENTRY, handles)
        self._base = base_offset
        self._interval = interval
        self.reset()

    @property
    def paths(self) -> tuple[Path, Path]:
        """The two files."""
        return self.offsets.path, self.times.path

    def reset(self) -> None:
        """Begin again for the segment's first batch; entries on disk are overwritten."""
        self.offsets.count = self.times.count = 0
        self._since = 0
        self._newest = (-1, self._base)
        self._indexed_time = -1

    def saw(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Note a batch that lies at `position`."""
        if max_timestamp > self._newest[0]:
            self._newest = (max_timestamp, last_offset)
        if self._since > self._interval:
            self.offsets.add(last_offset - self._base, position)
            self.add_time()
            self._since = 0
        self._since += size

    def add_time(self) -> None:
        """Write a time entry, unless time has not grown since the last one."""
        timestamp, offset = self._newest
        if timestamp > self._indexed_time:
            self.times.add(timestamp, offset - self._base)
            self._indexed_time = timestamp

    def trim(self) -> None:
        """End the files behind the entries that were written."""
        for index in (self.offsets, self.times):
            index.keep(index.count)

    def flush(self) -> None:
        """Sync both files."""
        self.offsets.flush()
        self.times.flush()

    def close(self) -> None:
        """Let go of both files."""
        self.offsets.close()
        self.times.close()

    def delete(self) -> None:
        """Remove both files."""
        self.close()
        for index in (self.offsets, self.times):
            index.path.unlink(missing_ok=True)
