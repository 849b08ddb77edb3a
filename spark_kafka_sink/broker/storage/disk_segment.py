"""A segment on disk (Kafka's .log, .index and .timeindex files), its recovery, and open files.

Appended batches are passed to the operating system before they are acknowledged, so they survive a
crash of the process. After a flush, they also survive a crash of the machine.

The index files contain the same entries that Kafka's ``OffsetIndex`` and ``TimeIndex`` would write.
The index files are intended for Kafka's tools. The broker does not read them, because it has a
complete table of batches in memory.

`scan` recovers a segment after a restart. Each segment has three files. `FileHandles` limits the
number of open files of a data folder, and closes the least recently used file at the limit.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections import OrderedDict
from struct import Struct
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.storage.log_storage import BatchFacts, OnBatch
from spark_kafka_sink.broker.storage.segmented_storage import LogSegment
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, MAGIC, BatchHeader, checksum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


MIN_FILES: Final = 8
MAX_FILES: Final = 8192
_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
_TOO_MANY_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
OFFSET_ENTRY: Final = Struct(">ii")
"""Offset relative to the segment's base offset, and byte position of its batch."""
TIME_ENTRY: Final = Struct(">qi")
"""Timestamp in milliseconds, and the relative offset of the batch with this timestamp."""


def allowed_files() -> int:
    """Return the maximum number of open log files: half of the process's limit."""
    try:
        import resource
    except ImportError:  # Windows has no limit of this kind.
        return MAX_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = MAX_FILES if soft == resource.RLIM_INFINITY else soft // 2
    return max(MIN_FILES, min(half, MAX_FILES))


class FileHandles:
    """File descriptors by path, for reading and writing. Not thread-safe.

    Args:
        limit: maximum number of open files.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = allowed_files() if limit is None else limit
        self._open: OrderedDict[Path, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: Path, *, create: bool = False) -> int:
        """Return the descriptor of a file, valid until the next call.

        Raises:
            OSError: the file cannot be opened, is a symbolic link, or is missing without `create`.
        """
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        flags = _FLAGS | os.O_CREAT if create else _FLAGS
        while len(self._open) >= self._limit:
            self._close_oldest()
        while True:
            try:
                self._open[path] = descriptor = os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno not in _TOO_MANY_FILES or not self._open:
                    raise
                self._close_oldest()
            else:
                return descriptor

    def _close_oldest(self) -> None:
        _, descriptor = self._open.popitem(last=False)
        os.close(descriptor)

    def close(self, path: Path) -> None:
        """Close a file if it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_in(self, folder: Path) -> None:
        """Close all files of a folder."""
        for path in [path for path in self._open if path.parent == folder]:
            self.close(path)

    def close_all(self) -> None:
        """Close all files."""
        while self._open:
            self._close_oldest()


class IndexFile:
    """A file of fixed-size entries, opened when the first entry is written."""

    def __init__(self, path: Path, entry: Struct, handles: FileHandles) -> None:
        self.path = path
        self._entry = entry
        self._handles = handles
        self._flushed = 0
        self.count = 0

    def add(self, *values: int) -> None:
        """Write one entry."""
        os.pwrite(self._file(), self._entry.pack(*values), self.count * self._entry.size)
        self.count += 1

    def keep(self, count: int) -> None:
        """Truncate the file to the first `count` entries."""
        self.count = count
        self._flushed = min(self._flushed, count)
        os.ftruncate(self._file(), count * self._entry.size)

    def flush(self) -> None:
        """Sync the file if entries were written since the last flush."""
        if self.count != self._flushed:
            os.fsync(self._file())
            self._flushed = self.count

    def _file(self) -> int:
        return self._handles.get(self.path, create=True)

    def close(self) -> None:
        """Close the file."""
        self._handles.close(self.path)


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
        self.offsets = IndexFile(folder / f"{name}.index", OFFSET_ENTRY, handles)
        self.times = IndexFile(folder / f"{name}.timeindex", TIME_ENTRY, handles)
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
            index.keep(index.count)

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


def scan(segment: DiskSegment, on_batch: OnBatch, *, trusted: bool) -> bool:
    """Add the complete batches of a segment to its table, without changing the file.

    Args:
        segment: the segment, with an empty table.
        on_batch: called with every batch.
        trusted: True to skip the checksums, because the segment was cleanly closed.

    Returns:
        True if the whole file is valid, or False if a crash left an incomplete batch.
    """
    size = segment.path.stat().st_size
    if size:
        with (
            segment.path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m,
        ):
            _scan(memoryview(m), segment, on_batch, trusted=trusted)
    return segment.table.size == size


def _scan(data: memoryview, segment: DiskSegment, on_batch: OnBatch, *, trusted: bool) -> None:
    at, expected = 0, segment.base_offset
    with data:
        while len(data) - at >= HEADER_SIZE:
            header = BatchHeader.parse(data, at)
            if not _fits(header, len(data) - at, expected):
                return
            with data[at : at + header.size] as batch:
                if not trusted and checksum(batch) != header.crc:
                    return
                on_batch(header, batch)
            segment.register(BatchFacts.of(header, header.size))
            at += header.size
            expected = header.last_offset + 1


def _fits(header: BatchHeader, left: int, expected: int) -> bool:
    return (
        header.magic == MAGIC
        and HEADER_SIZE <= header.size <= left
        and header.base_offset == expected
        and header.last_offset_delta >= 0
    )


class DiskSegment(LogSegment):
    """A segment with its batches in one file. Files are opened when needed.

    Args:
        folder: the partition's folder.
        base_offset: determines the file names.
        interval: index.interval.bytes.
        handles: the open files of the data folder.
        is_new: True to raise FileExistsError if one of the files exists.
    """

    def __init__(
        self,
        folder: Path,
        base_offset: int,
        interval: int,
        handles: FileHandles,
        *,
        is_new: bool = True,
    ) -> None:
        super().__init__(base_offset)
        self.path = folder / f"{base_offset:020d}.log"
        self._indexes = SegmentIndexes(folder, base_offset, interval, handles)
        if is_new:
            for path in (self.path, self._indexes.offsets.path, self._indexes.times.path):
                _check_absent(path)
        handles.get(self.path, create=is_new)
        self._handles = handles
        self.is_dirty = False
        """True if data was written since the last flush."""
        self._has_leftover = False

    @property
    def modified_ms(self) -> int:
        """See `LogSegment`."""
        return self.path.stat().st_mtime_ns // 1_000_000

    @property
    def index_entries(self) -> int:
        """See `LogSegment`."""
        return self._indexes.offsets.count

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """See `LogSegment`.

        Raises:
            OSError: the batch cannot be written. The file is truncated to its previous end.
        """
        self._remove_leftover()
        self.is_dirty = True
        try:
            _write(self._handles.get(self.path), parts, self.table.size)
            self.register(facts)
        except OSError:
            # If a shorter batch overwrote some of these bytes, the remaining bytes could look like
            # a batch.
            self._has_leftover = True
            with contextlib.suppress(OSError):
                self._remove_leftover()
            raise

    def _remove_leftover(self) -> None:
        """Remove the bytes that a failed append left in the file."""
        if self._has_leftover:
            self.truncate_file()

    def register(self, facts: BatchFacts) -> None:
        """Add the next batch of the file to the table and the indexes."""
        self._indexes.add_batch(self.table.size, facts)
        super().register(facts)

    def read(self, first: int, end: int) -> list[memoryview]:
        """See `LogSegment`. All batches are in one memoryview.

        Raises:
            OSError: the file cannot be read, or is shorter than its records.
        """
        at = self.table.position(first)
        size = self.table.position(end) - at
        data = os.pread(self._handles.get(self.path), size, at)
        if len(data) < size:
            raise OSError(errno.EIO, "the file is shorter than its records", str(self.path))
        return [memoryview(data)]

    def truncate(self, count: int) -> None:
        """See `LogSegment`."""
        if count == len(self.table):
            return
        os.ftruncate(self._handles.get(self.path), self.table.position(count))
        self.table.keep(count)
        facts = [self.table.facts(number, self.base_offset) for number in range(count)]
        self.first_timestamp = facts[0].max_timestamp if facts else None
        self._indexes.reset()
        for number, batch_facts in enumerate(facts):
            self._indexes.add_batch(self.table.position(number), batch_facts)
        self._indexes.trim()

    def truncate_file(self) -> None:
        """Truncate the file to the batches in the table."""
        os.ftruncate(self._handles.get(self.path), self.table.size)
        self._has_leftover = False

    def trim_indexes(self) -> None:
        """Truncate the index files after the last written entry."""
        self._indexes.trim()

    def seal(self) -> None:
        """See `LogSegment`. As in Kafka, write a time entry for the last batch."""
        self._remove_leftover()
        self._indexes.add_time()
        self._indexes.trim()
        self._indexes.close()

    def flush(self) -> None:
        """See `LogSegment`."""
        if self.is_dirty:
            os.fsync(self._handles.get(self.path))
            self._indexes.flush()
            self.is_dirty = False

    def close(self) -> None:
        """See `LogSegment`."""
        try:
            self.seal()
        finally:
            self._handles.close(self.path)

    def delete(self) -> None:
        """See `LogSegment`."""
        self._handles.close(self.path)
        self._indexes.delete()
        self.path.unlink(missing_ok=True)


def _check_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists, but the broker did not write it. Move it elsewhere")


def _write(fd: int, parts: Sequence[memoryview | bytes | bytearray], at: int) -> None:
    left = [memoryview(part) for part in parts]
    while left:
        count = os.pwritev(fd, left, at)
        at += count
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if left:
            left[0] = left[0][count:]
