"""The log of one partition: batches, offsets and leader epochs."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_kafka_sink.broker.storage.log_storage import END, BatchFacts, LogStorage, StoredBatch
from spark_kafka_sink.broker.storage.segmented_storage import SegmentedStorage
from spark_kafka_sink.kafka.records import record_batch
from spark_kafka_sink.kafka.records.record_decoder import read_fields, records_section

if TYPE_CHECKING:
    from collections.abc import Iterator


_UNDEFINED = -1
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class EpochEntry(NamedTuple):
    """A leader epoch with its start offset or its end offset."""

    epoch: int
    offset: int


class LeaderEpochCache:
    """The leader epochs of a log, with their start offsets, in ascending order."""

    def __init__(self) -> None:
        self.starts: list[EpochEntry] = []

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 if there is none."""
        return self.starts[-1].epoch if self.starts else _UNDEFINED

    def assign(self, epoch: int, offset: int) -> None:
        """Store the start offset of an epoch unless it is known. Drop epochs without records."""
        if epoch <= self.latest:
            return
        self.truncate(offset)
        self.starts.append(EpochEntry(epoch, offset))

    def truncate(self, offset: int) -> None:
        """Drop the epochs that started at the log's new end offset or later."""
        while self.starts and self.starts[-1].offset >= offset:
            self.starts.pop()

    def epoch_at(self, offset: int) -> int:
        """Return the epoch in which the record at an offset was written, or -1 if unknown."""
        after = bisect_right(self.starts, offset, key=lambda start: start.offset)
        return self.starts[after - 1].epoch if after else _UNDEFINED

    def end_of(self, epoch: int, end_offset: int) -> EpochEntry:
        """Return the end of an epoch or of the newest older epoch. Both fields are -1 if unknown.

        `end_offset` is the end offset of the log.
        """
        if epoch == self.latest:
            return EpochEntry(epoch, end_offset)
        after = bisect_right(self.starts, epoch, key=lambda start: start.epoch)
        if epoch == _UNDEFINED or after == len(self.starts):
            return EpochEntry(_UNDEFINED, _UNDEFINED)
        floor_epoch = self.starts[after - 1].epoch if after else epoch
        return EpochEntry(floor_epoch, self.starts[after].offset)


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """An offset, and the timestamp of its record in milliseconds."""

    timestamp: int
    offset: int


class UnifiedLog:
    """The batches of a partition in offset order.

    Args:
        storage: stores the batches; in memory by default.
        epochs: the leader epochs of the batches in the storage.
    """

    def __init__(
        self, storage: LogStorage | None = None, epochs: LeaderEpochCache | None = None
    ) -> None:
        self.storage: LogStorage = SegmentedStorage() if storage is None else storage
        self.epochs = LeaderEpochCache() if epochs is None else epochs
        self.end_offset = self.storage.end_offset
        self._start_offset = 0

    def __iter__(self) -> Iterator[StoredBatch]:
        return self.storage.batches(self.start_offset)

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return max(self._start_offset, self.storage.start_offset)

    @property
    def size(self) -> int:
        """Total size of all batches in bytes."""
        return self.storage.size

    def append(
        self,
        batch: memoryview | bytes,
        header: record_batch.BatchHeader,
        leader_epoch: int,
        append_time: int | None = None,
    ) -> int:
        """Set the offset and epoch in a validated batch and append it. Return its base offset.

        `append_time` replaces the timestamps, in milliseconds.

        Raises:
            OSError: the storage failed; the log is unchanged.
        """
        if self.storage.end_offset > self.end_offset:  # A failed append could not be undone.
            self.storage.truncate(self.end_offset)
        base = self.storage.next_offset()
        view = memoryview(batch)
        head, body = bytearray(view[: record_batch.HEADER_SIZE]), view[record_batch.HEADER_SIZE :]
        if append_time is not None:
            attributes = header.attributes | record_batch.LOG_APPEND_TIME
            header = header._replace(attributes=attributes, max_timestamp=append_time)
            head = bytearray(header.pack([body]))
        _INT64.pack_into(head, 0, base)
        _INT32.pack_into(head, record_batch.LEADER_EPOCH_OFFSET, leader_epoch)
        last = base + header.last_offset_delta
        facts = BatchFacts(
            base_offset=base, last_offset=last, max_timestamp=header.max_timestamp, size=len(view)
        )
        self.storage.append((head, body), facts)
        self.epochs.assign(leader_epoch, base)
        self.end_offset = last + 1
        return base

    def end_before(self, offset: int) -> int:
        """Return the position of a consumer that has read all batches before `offset`.

        This is the end offset of the last of these batches, or the log start offset if there are
        none. `offset` is the base offset of a batch, or the end offset of the log.
        """
        return min(offset, max(self.storage.end_before(offset), self.start_offset))

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, end: int = END
    ) -> list[memoryview]:
        """Return whole batches of up to `max_bytes`, starting with the batch at `offset`.

        One memoryview can contain several batches. With `at_least_one`, the first batch is returned
        regardless of its size (KIP-74). Only batches that end before the offset `end` are returned.
        """
        batches = self.storage.read(offset, end, max(max_bytes, 0))
        return batches if batches or not at_least_one else self.storage.read(offset, end, -1)

    def bytes_from(self, offset: int, end: int = END) -> int:
        """Return the number of bytes that can be read from `offset` up to `end`."""
        return self.storage.bytes_between(offset, end)

    def first_at_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Return the first record with a timestamp of at least `timestamp`, or None."""
        first = self.storage.first_at_timestamp(timestamp)
        if first is None:
            return None
        later = self.storage.batches(max(first.header.base_offset, self.start_offset))
        timely = (batch for batch in later if batch.header.max_timestamp >= timestamp)
        offsets = (_first_in(batch, timestamp, self.start_offset) for batch in timely)
        return next((offset for offset in offsets if offset is not None), None)

    def first_at_max_timestamp(self) -> TimedOffset | None:
        """Return the first record with the largest timestamp in the log (KIP-734), or None."""
        batch = self.storage.first_at_max_timestamp()
        if batch is None:
            return None
        return _first_in(batch, batch.header.max_timestamp, batch.header.base_offset)

    def delete_records(self, offset: int) -> None:
        """Advance the start offset. Space is freed in whole segments."""
        self._start_offset = max(self._start_offset, offset)
        self.storage.delete_before(self._start_offset)

    def expire(self, now_ms: int, high_watermark: int) -> None:
        """Delete data below the start offset, and expired data below the high watermark.

        Corresponds to Kafka's UnifiedLog.deleteOldSegments. A segment that `delete_records` had to
        keep because it was active can be deleted after a roll.
        """
        self.storage.delete_before(self._start_offset)
        self.storage.expire(now_ms, high_watermark)

    def truncate(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all later batches.

        Raises:
            OSError: the storage failed; some of the batches might remain.
        """
        try:
            self.storage.truncate(offset)
        finally:
            self.end_offset = self.storage.end_offset
            self.epochs.truncate(self.end_offset)

    def restart_at(self, offset: int) -> None:
        """Drop all batches, and continue the log at `offset`, which is after its end.

        Raises:
            OSError: the storage failed.
        """
        self.storage.restart_at(offset)
        self.end_offset = self.storage.end_offset
        self.epochs = LeaderEpochCache()


def _first_in(batch: StoredBatch, timestamp: int, start: int) -> TimedOffset | None:
    """Return the first record at or above `start` with a timestamp of at least `timestamp`."""
    header = batch.header
    fields = read_fields(records_section(batch.data, header), header.record_count)
    times = header.base_timestamp + fields.time_deltas
    if header.is_log_append_time:
        times = np.full_like(times, header.max_timestamp)
    offsets = header.base_offset + fields.offset_deltas
    matches = np.flatnonzero((times >= timestamp) & (offsets >= start))
    if not matches.size:
        return None
    first = int(matches[0])
    return TimedOffset(int(times[first]), int(offsets[first]))
