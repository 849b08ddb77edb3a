"""A segment on disk (Kafka's .log, .index and .timeindex files), and its recovery.

Appended batches are passed to the operating system before they are acknowledged, so they survive a
crash of the process. After a flush, they also survive a crash of the machine.

`scan` recovers a segment after a restart.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.file_handles import FileHandles, sync_folder
from spark_kafka_sink.broker.storage.log_segment import LogSegment
from spark_kafka_sink.broker.storage.log_storage import BatchFacts, OnBatch
from spark_kafka_sink.broker.storage.segment_indexes import SegmentIndexes
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, MAGIC, BatchHeader, checksum

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence
    from pathlib import Path


def own_files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return the segment files in a partition's folder, sorted by name. Links are omitted."""
    with os.scandir(folder) as entries:
        files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    return [folder / name for name in sorted(files) if pattern.fullmatch(name)]


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
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        ):
            _scan_batches(memoryview(mapped), segment, on_batch, trusted=trusted)
    return segment.table.size == size


def _scan_batches(
    data: memoryview, segment: DiskSegment, on_batch: OnBatch, *, trusted: bool
) -> None:
    at, expected = 0, segment.base_offset
    with data:
        while len(data) - at >= HEADER_SIZE:
            header = BatchHeader.parse(data, at)
            if not _is_next_batch(header, len(data) - at, expected):
                return
            with data[at : at + header.size] as batch:
                if not trusted and checksum(batch) != header.crc:
                    return
                on_batch(header, batch)
            segment.register(BatchFacts.of(header, header.size))
            at += header.size
            expected = header.last_offset + 1


def _is_next_batch(header: BatchHeader, left: int, expected: int) -> bool:
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
        self.is_dirty = is_new and base_offset > 0
        """True if data was written since the last flush, or if the file is new and its name is the
        only evidence of the log's end offset.
        """
        self._are_folders_synced = False
        self._has_leftover = False

    @property
    def modified_ms(self) -> int:
        """Time of the file's last change, in milliseconds."""
        return self.path.stat().st_mtime_ns // 1_000_000

    @property
    def index_entries(self) -> int:
        """Number of entries in the offset index."""
        return self._indexes.offsets.count

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """See `LogSegment`.

        Raises:
            OSError: the batch cannot be written. The file is truncated to its previous end.
        """
        self._remove_leftover()
        self.is_dirty = True
        try:
            _write_parts(self._handles.get(self.path), parts, self.table.size)
            self.register(facts)
        except OSError:
            # If a shorter batch overwrote some of these bytes, the remaining bytes could look like
            # a batch.
            self._has_leftover = True
            with contextlib.suppress(OSError):
                self._remove_leftover()
            raise

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
        """Truncate the file to its first `count` batches, and rebuild the indexes."""
        if count == len(self.table):
            return
        os.ftruncate(self._handles.get(self.path), self.table.position(count))
        self.table.truncate(count)
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
        """Flush the file, its indexes and the names of new files."""
        if self.is_dirty:
            os.fsync(self._handles.get(self.path))
            self._indexes.flush()
            self._sync_folders()
            self.is_dirty = False

    def close(self) -> None:
        """Seal the segment and close its files."""
        try:
            self.seal()
        finally:
            self._indexes.close()
            self._handles.close(self.path)

    def delete(self) -> None:
        """Delete the files."""
        self._handles.close(self.path)
        self._indexes.delete()
        self.path.unlink(missing_ok=True)

    def _remove_leftover(self) -> None:
        """Remove the bytes that a failed append left in the file."""
        if self._has_leftover:
            self.truncate_file()

    def _sync_folders(self) -> None:
        """Make the files' names survive a crash of the machine, like Kafka's ``LocalLog.flush``."""
        if not self._are_folders_synced:
            partition = self.path.parent
            for folder in (partition, partition.parent):
                sync_folder(folder)
            self._are_folders_synced = True


def _check_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists, but the broker did not write it. Move it elsewhere")


def _write_parts(fd: int, parts: Sequence[memoryview | bytes | bytearray], position: int) -> None:
    left = [memoryview(part) for part in parts]
    while left:
        count = os.pwritev(fd, left, position)
        position += count
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if left:
            left[0] = left[0][count:]
