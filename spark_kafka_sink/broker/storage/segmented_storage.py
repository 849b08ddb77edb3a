"""A log that consists of segments, which are rolled and deleted as in Kafka."""

from __future__ import annotations

import errno
from bisect import bisect_right
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.config.topic_config import DEFAULT_LOG_CONFIG, LogConfig
from spark_kafka_sink.broker.storage.log_segment import LogSegment
from spark_kafka_sink.broker.storage.log_storage import END, UNLIMITED, LogStorage, StoredBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_kafka_sink.broker.storage.log_storage import BatchFacts


_MIN_SEGMENTS = 4
"""Minimum number of segments into which retention.bytes of a log in memory is divided."""
_MIN_SEGMENT_BYTES = 1 << 20


@dataclass(slots=True, eq=False)
class SegmentedStorage(LogStorage):
    """A `LogStorage` that consists of segments."""

    config: LogConfig = DEFAULT_LOG_CONFIG
    """Limits of segments and of retention."""
    new_segment: Callable[[int], LogSegment] = LogSegment
    """Creates an empty segment with the given base offset."""
    segments: list[LogSegment] = field(default_factory=list)
    """The segments, oldest first. The last segment is the active segment."""
    _: KW_ONLY
    is_bounded: bool = False
    """True to enforce retention.bytes also in `drop_surplus`, not only in `expire`."""
    sync_journal: Callable[[], None] = lambda: None
    """Called before each flush. Without the journal, a flushed log cannot be used: its topic, the
    producer ids and the transactions in it are in the journal.
    """
    recovery_point: int = 0
    """All records before this offset have been flushed."""
    store_recovery_point: Callable[[int], None] = lambda _: None
    """Called when the recovery point changes."""
    _unflushed: int = field(default=0, init=False)
    _flush_error: OSError | None = field(default=None, init=False)
    """The error of a failed flush. The system may have dropped data that it could not write, and a
    repeated fsync would succeed without writing it. Therefore the log is read-only from then on.
    """
    _flushed_at: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.segments:
            self.segments.append(self.new_segment(0))

    @property
    def start_offset(self) -> int:
        """Base offset of the oldest batch, or of the next batch if the log is empty."""
        return self.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last batch."""
        active = self.segments[-1]
        last = active.table.last_offset
        return active.base_offset if last is None else last + 1

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.table.size for segment in self.segments)

    def append(self, parts: Sequence[memoryview | bytes | bytearray], facts: BatchFacts) -> None:
        """Append a batch to the active segment, which is rolled first if necessary."""
        self._check_flushed()
        if self.segments[-1].is_full(facts, self.config, self._segment_bytes()):
            self._roll_segment(facts.base_offset)
        self.segments[-1].append(parts, facts)
        self._unflushed += facts.last_offset - facts.base_offset + 1
        if self._unflushed >= self.config.flush_messages:
            self._flush_or_drop(facts.base_offset)

    def read(self, start: int, end: int, max_bytes: int) -> list[memoryview]:
        """Return whole batches, up to `max_bytes`, from the one that contains `start`."""
        batches: list[memoryview] = []
        left = max_bytes
        for segment, first, after in self._batch_spans(start, end):
            stop = first + 1 if left < 0 else min(after, segment.table.end_within(first, left))
            if stop > first:
                batches += segment.read(first, stop)
                left -= segment.table.position(stop) - segment.table.position(first)
            if stop < after or left <= 0:
                break
        return batches

    def bytes_between(self, start: int, end: int) -> int:
        """Return the total number of bytes that `read` could return."""
        return sum(
            segment.table.position(after) - segment.table.position(first)
            for segment, first, after in self._batch_spans(start, end)
        )

    def batches(self, offset: int = 0) -> Iterator[StoredBatch]:
        """Yield the batch that contains `offset` and all later batches."""
        for segment, first, end in self._batch_spans(offset, END):
            for number in range(first, end):
                yield _stored(segment, number)

    def first_at_timestamp(self, timestamp: int) -> StoredBatch | None:
        """Return the first batch with a record timestamp of at least `timestamp`, or None."""
        for segment in self.segments:
            if len(segment.table) and segment.table.max_timestamp >= timestamp:
                return _stored(segment, segment.table.number_at_timestamp(timestamp))
        return None

    def first_at_max_timestamp(self) -> StoredBatch | None:
        """Return the first batch with the largest timestamp in the log, or None."""
        filled = [segment for segment in self.segments if len(segment.table)]
        if not filled:
            return None
        segment = max(filled, key=lambda segment: segment.table.max_timestamp)
        return _stored(segment, segment.table.number_at_max_timestamp())

    def delete_before(self, offset: int) -> None:
        """Delete segments that are completely before an offset, but never the active segment."""
        while len(self.segments) > 1 and self.segments[1].base_offset <= offset:
            self._delete_segment(0)

    def restart_at(self, offset: int) -> None:
        """Drop all segments, and continue in a new one at an offset after the end."""
        self._roll_segment(offset)
        self.delete_before(offset)

    def truncate(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all later batches."""
        self._lower_recovery_point(offset)
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self._delete_segment(-1)
        active = self.segments[-1]
        active.truncate(active.table.number_at_offset(offset))

    def expire(self, now_ms: int, high_watermark: int = END) -> None:
        """Delete segments that exceed the retention (Kafka's UnifiedLog.deleteOldSegments)."""
        if not self.config.deletes_records:
            return
        surplus = self.size - self.config.retention_bytes
        keep_ms = self.config.retention_ms
        while self.segments[0].is_expired(now_ms, keep_ms) or self._is_surplus(surplus):
            end = self.segments[1].base_offset if len(self.segments) > 1 else self.end_offset
            if end > high_watermark:
                break
            surplus -= self.segments[0].table.size
            if len(self.segments) == 1:
                self._roll_segment(self.end_offset)
            self._delete_segment(0)

    def drop_surplus(self, high_watermark: int) -> None:
        """See `LogStorage`. Nothing is dropped unless the last batch is the first in its segment.

        The active segment is never deleted.
        """
        if not (
            self.is_bounded and self.config.deletes_records and len(self.segments[-1].table) == 1
        ):
            return
        surplus = self.size - self.config.retention_bytes
        while len(self.segments) > 1 and self._is_surplus(surplus):
            if self.segments[1].base_offset > high_watermark:
                break
            surplus -= self.segments[0].table.size
            self._delete_segment(0)

    def flush(self) -> None:
        """Flush the journal and all segments."""
        self._check_flushed()
        self.sync_journal()
        try:
            for segment in self.segments:
                segment.flush()
        except OSError as error:
            self._flush_error = error
            raise
        self._unflushed = 0
        with suppress(OSError):  # The next start then verifies more than necessary.
            self._set_recovery_point(self.segments[-1].base_offset)

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if flush.ms has passed since the last flush."""
        if abs(now_ms - self._flushed_at) < self.config.flush_ms:
            return
        self._flushed_at = now_ms
        if self._unflushed and self._flush_error is None:
            self.flush()

    def close(self) -> None:
        """Flush and close all segments."""
        with ExitStack() as stack:  # closes all segments, even if some of them fail
            for segment in self.segments:
                stack.callback(segment.close)
            self.flush()
            with suppress(OSError):
                self._set_recovery_point(self.end_offset)

    def _flush_or_drop(self, offset: int) -> None:
        """Flush. If this fails, drop the batch at `offset`, so that the producer can retry it."""
        try:
            self.flush()
        except OSError:
            self.truncate(offset)
            raise

    def _segment_bytes(self) -> int:
        config = self.config
        if not self.is_bounded or config.retention_bytes == UNLIMITED or not config.deletes_records:
            return config.segment_bytes
        part = max(config.retention_bytes // _MIN_SEGMENTS, _MIN_SEGMENT_BYTES)
        return min(config.segment_bytes, part)

    def _roll_segment(self, base_offset: int) -> None:
        self.segments[-1].seal()
        self.segments.append(self.new_segment(base_offset))

    def _segment_index(self, offset: int) -> int:
        """Return the index of the segment that contains an offset."""
        index = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset)
        return max(index - 1, 0)

    def _batch_spans(self, start: int, stop: int) -> Iterator[tuple[LogSegment, int, int]]:
        """Yield the segments between two offsets, each with the first and end batch numbers."""
        for segment in self.segments[self._segment_index(start) :]:
            if segment.base_offset >= stop:
                return
            first, end = segment.table.number_at_offset(start), segment.table.number_at_offset(stop)
            if first < end:
                yield segment, first, end

    def _delete_segment(self, number: int) -> None:
        """Delete a segment. If this fails, the segment remains in the list and is deleted later."""
        self.segments[number].delete()
        del self.segments[number]

    def _lower_recovery_point(self, offset: int) -> None:
        """Before a truncation, store that records written after it are not flushed.

        Raises:
            OSError: the journal failed. The log must not be truncated.
        """
        bases = (segment.base_offset for segment in reversed(self.segments))
        base = next((base for base in bases if base < offset), self.start_offset)
        if base < self.recovery_point:
            self._set_recovery_point(base)
            self.sync_journal()

    def _is_surplus(self, surplus: int) -> bool:
        table = self.segments[0].table
        limited = self.config.retention_bytes != UNLIMITED
        return limited and len(table) > 0 and surplus >= table.size

    def _check_flushed(self) -> None:
        if self._flush_error is not None:
            problem = "the log is read-only until a restart, because a flush failed"
            raise OSError(errno.EIO, f"{problem}: {self._flush_error}")

    def _set_recovery_point(self, offset: int) -> None:
        if offset != self.recovery_point:
            self.store_recovery_point(offset)
            self.recovery_point = offset


def _stored(segment: LogSegment, number: int) -> StoredBatch:
    return StoredBatch.of(memoryview(b"".join(segment.read(number, number + 1))))
