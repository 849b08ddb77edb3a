"""The log of one partition, in memory: whole batches, as they came, with their offsets stamped."""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.records.batch import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    LEADER_EPOCH_OFFSET,
    BatchHeader,
    checksum,
)
from spark_kafka_sink.records.decoder import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")
_LOG_APPEND_TIME = 0x08
_MAX_TIMESTAMP_OFFSET = 35


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch in the log; `max_timestamp` in milliseconds."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the leader writes into a batch that it takes; `append_time` in milliseconds."""

    leader_epoch: int
    append_time: int | None = None


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """An offset and the timestamp of its record, in milliseconds."""

    timestamp: int
    offset: int


class PartitionLog:
    """Batches in offset order. Readers get views of them, never copies."""

    __slots__ = ("_batches", "_last_offsets", "end_offset", "size", "start_offset")

    def __init__(self) -> None:
        self._batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self.start_offset = 0
        self.end_offset = 0
        self.size = 0

    def __iter__(self) -> Iterator[StoredBatch]:
        return iter(self._batches)

    def append(self, batch: memoryview | bytes, header: BatchHeader, stamp: Stamp) -> int:
        """Keep a copy of a validated batch at the end; return its base offset."""
        base, data = self.end_offset, bytearray(batch)
        _INT64.pack_into(data, 0, base)
        _INT32.pack_into(data, LEADER_EPOCH_OFFSET, stamp.leader_epoch)
        max_timestamp = header.max_timestamp
        if stamp.append_time is not None:
            max_timestamp = stamp.append_time
            _stamp_time(data, header.attributes, max_timestamp)
        last = base + header.last_offset_delta
        self._batches.append(
            StoredBatch(
                base_offset=base,
                last_offset=last,
                max_timestamp=max_timestamp,
                data=memoryview(data).toreadonly(),
            )
        )
        self._last_offsets.append(last)
        self.end_offset = last + 1
        self.size += len(data)
        return base

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> list[memoryview]:
        """Whole batches from the one that holds `offset` on, of at most `max_bytes` bytes.

        With `at_least_one` the first batch comes whatever its size (KIP-74).
        """
        found: list[memoryview] = []
        left = max_bytes
        for batch in self._from(offset):
            left -= len(batch.data)
            if left < 0 and not (at_least_one and not found):
                break
            found.append(batch.data)
        return found

    def bytes_from(self, offset: int, enough: int) -> int:
        """Bytes that a reader at `offset` would get; counting stops at `enough`."""
        total = 0
        for batch in self._from(offset):
            total += len(batch.data)
            if total >= enough:
                break
        return total

    def first_at(self, timestamp: int) -> TimedOffset | None:
        """Find the first record that is not older than `timestamp` (ListOffsets)."""
        for batch in self._batches:
            if batch.max_timestamp >= timestamp:
                for record in read_records(batch.data):
                    if record.timestamp >= timestamp:
                        return TimedOffset(record.timestamp, record.offset)
        return None

    def newest(self) -> TimedOffset | None:
        """Find the first record with the largest timestamp of all (KIP-734)."""
        if not self._batches:
            return None
        return self.first_at(max(batch.max_timestamp for batch in self._batches))

    def _from(self, offset: int) -> Iterator[StoredBatch]:
        for index in range(bisect_left(self._last_offsets, offset), len(self._batches)):
            yield self._batches[index]


def _stamp_time(data: bytearray, attributes: int, now: int) -> None:
    _INT16.pack_into(data, ATTRIBUTES_OFFSET, attributes | _LOG_APPEND_TIME)
    _INT64.pack_into(data, _MAX_TIMESTAMP_OFFSET, now)
    _UINT32.pack_into(data, CRC_OFFSET, checksum(memoryview(data)))
