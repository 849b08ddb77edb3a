"""A segment on disk: Kafka's .log, .index and .timeindex files.

What is appended is with the operating system before it is acknowledged, so it outlives the
process; it outlives the machine once it is flushed.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.batch_table import BatchTable
from spark_kafka_sink.broker.storage.index_files import SegmentIndexes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_kafka_sink.broker.storage.file_handles import FileHandles
    from spark_kafka_sink.broker.storage.log_storage import BatchFacts

SUFFIX = ".log"


class DiskSegment:
    """Batches in one file; files are opened when they are needed.

    Args:
        folder: the partition's.
        base_offset: names the files.
        interval: index.interval.bytes.
        handles: the folder's open files.
        is_new: no file of these names may exist yet; FileExistsError if one does.
    """

    __slots__ = (
        "_dirty",
        "_handles",
        "_indexes",
        "base_offset",
        "first_timestamp",
        "path",
        "table",
    )

    def __init__(
        self,
        folder: Path,
        base_offset: int,
        interval: int,
        handles: FileHandles,
        *,
        is_new: bool = True,
    ) -> None:
        self.base_offset = base_offset
        self.path = folder / f"{base_offset:020d}{SUFFIX}"
        self._indexes = SegmentIndexes(folder, base_offset, interval, handles)
        if is_new:
            _check_absent(self.path, *self._indexes.paths)
        handles.get(self.path)
        self.table = BatchTable()
        self.first_timestamp: int | None = None
        self._handles = handles
        self._dirty = False

    @property
    def modified_ms(self) -> int:
        """See `LogSegment`."""
        return self.path.stat().st_mtime_ns // 1_000_000

    @property
    def index_entries(self) -> int:
        """See `LogSegment`."""
        return self._indexes.offsets.count

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """See `LogSegment`; raises OSError when the disk does not take it."""
        self._dirty = True
        end = self.table.size
        try:
            _write(self._handles.get(self.path), parts, end)
            self.recall(facts)
        except OSError:
            # What was written would be taken for a batch if a shorter one is written over it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._handles.get(self.path), end)
            raise

    def recall(self, facts: BatchFacts) -> None:
        """Note a batch that lies at the end of the file."""
        position = self.table.size
        self._indexes.saw(position, facts.size, facts.last_offset, facts.max_timestamp)
        self.table.add(facts)
        if self.first_timestamp is None:
            self.first_timestamp = facts.max_timestamp

    def read(self, first: int, end: int) -> list[memoryview]:
        """See `LogSegment`: one piece."""
        at = self.table.position(first)
        size = self.table.position(end) - at
        return [memoryview(os.pread(self._handles.get(self.path), size, at))]

    def truncate(self, count: int) -> None:
        """See `LogSegment`."""
        if count == len(self.table):
            return
        facts = [self.table.facts(number, self.base_offset) for number in range(count)]
        self.table = BatchTable()
        self.first_timestamp = None
        self._indexes.reset()
        for one in facts:
            self.recall(one)
        self.cut()
        self.trim_indexes()

    def cut(self) -> None:
        """End the file where the batches that are known end."""
        os.ftruncate(self._handles.get(self.path), self.table.size)

    def trim_indexes(self) -> None:
        """End the index files behind the entries of the batches that are known."""
        self._indexes.trim()

    def seal(self) -> None:
        """See `LogSegment`: as Kafka does it, the last time gets its entry."""
        self._indexes.add_time()
        self._indexes.trim()
        self._indexes.close()

    def flush(self) -> None:
        """See `LogSegment`."""
        if self._dirty:
            os.fsync(self._handles.get(self.path))
            self._indexes.flush()
            self._dirty = False

    def close(self) -> None:
        """See `LogSegment`."""
        self.seal()
        self._handles.close(self.path)

    def delete(self) -> None:
        """See `LogSegment`."""
        self._handles.close(self.path)
        self._indexes.delete()
        self.path.unlink(missing_ok=True)


def _check_absent(*paths: Path) -> None:
    for path in paths:
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists, but the broker did not write it. Move it away")


def _write(fd: int, parts: Sequence[memoryview | bytes | bytearray], at: int) -> None:
    left = [memoryview(part) for part in parts]
    while left:
        count = os.pwritev(fd, left, at)
        at += count
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if left:
            left[0] = left[0][count:]
