"""The fields of all records of a batch as columns, every length checked, without Python per field.

Source: Kafka's ``DefaultRecord.readFrom``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.records.binary_columns import binary_array
from spark_kafka_sink.records.record_scanner import SMALLEST_RECORD, record_positions
from spark_kafka_sink.records.varint import (
    INT_BYTES,
    LONG_BYTES,
    read_varint,
    read_varints,
)

if TYPE_CHECKING:
    from spark_kafka_sink.records.varint import Bytes, Numbers

_FEW: Final = 16
"""Records, or those with more headers, up to which Python alone is faster than columns."""

_PADDING: Final = bytes(2 * LONG_BYTES)
"""A number at the very end may be read beyond it, before that is found out."""


class RecordFields(NamedTuple):
    """One record's; a key of negative size is null."""

    time_delta: int
    offset_delta: int
    key_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldColumns:
    """One value per record; a key of negative size is null."""

    time_deltas: Numbers
    offset_deltas: Numbers
    key_sizes: Numbers


def read_fields(section: memoryview | bytes, count: int) -> FieldColumns:
    """Read an uncompressed records section that has to hold `count` records and nothing else.

    Raises:
        ProtocolError: it does not.
    """
    if count > _FEW:
        return read_columns(section, count)
    found = np.array(read_few(section, count), np.int64).reshape(count, len(RecordFields._fields))
    return FieldColumns(time_deltas=found[:, 0], offset_deltas=found[:, 1], key_sizes=found[:, 2])


def read_columns(section: memoryview | bytes, count: int) -> FieldColumns:
    """See `read_fields`; for many records."""
    end = len(section)
    _check_room(count, end)
    data = b"".join((section, _PADDING))
    reader = _Reader(data)
    reader.enter(record_positions(data, end, count), end)
    reader.at = reader.at + 1
    time_deltas = reader.number(LONG_BYTES)
    offset_deltas = reader.number()
    key_sizes = reader.number()
    reader.skip(np.maximum(key_sizes, 0))
    reader.skip(np.maximum(reader.number(), 0))
    reader.skip_headers(reader.number())
    reader.leave()
    return FieldColumns(time_deltas=time_deltas, offset_deltas=offset_deltas, key_sizes=key_sizes)


def read_few(section: memoryview | bytes, count: int) -> list[RecordFields]:
    """See `read_fields`; one by one, as to set columns up would take longer."""
    end = len(section)
    _check_room(count, end)
    found, position = [], 0
    for _ in range(count):
        size, start = read_varint(section, position)
        position = start + size
        if size < SMALLEST_RECORD - 1 or position > end:
            raise ProtocolError(f"a record of {size} bytes")
        found.append(_read_one(section, start, position))
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the last record of a batch")
    return found


def _check_room(count: int, size: int) -> None:
    if count * SMALLEST_RECORD > size:
        raise ProtocolError(f"{count} records can't be in {size} bytes")


def _read_one(data: memoryview | bytes, start: int, end: int) -> RecordFields:
    time_delta, at = read_varint(data, start + 1, LONG_BYTES)
    offset_delta, at = read_varint(data, at)
    key_size, at = read_varint(data, at)
    size, at = read_varint(data, at + max(key_size, 0))
    headers, at = read_varint(data, at + max(size, 0))
    if headers < 0 or _behind_headers(data, at, headers) != end:
        raise ProtocolError("a record that ends elsewhere than its size says")
    return RecordFields(time_delta, offset_delta, key_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTails:
    """Records without what numbers them in their batch; one value per record.

    `tails` is key, value and headers as they are in the section.
    """

    sizes: Numbers
    time_deltas: Numbers
    tails: pa.BinaryArray


def read_tails(section: memoryview | bytes, count: int) -> RecordTails:
    """Read an uncompressed records section of `count` records, of less than 2 GiB.

    Raises:
        ProtocolError: it holds something else.
    """
    end = len(section)
    data = b"".join((section, _PADDING))
    reader = _Reader(data)
    starts = record_positions(data, end, count)
    reader.enter(starts, end)
    reader.at = reader.at + 1
    time_deltas = reader.number(LONG_BYTES)
    reader.number()
    # Every other entry is a tail; what lies between two is where the next record begins.
    edges = np.stack((reader.at, reader.ends), axis=1).astype(np.int32).reshape(-1)
    return RecordTails(
        sizes=reader.ends - starts,
        time_deltas=time_deltas,
        tails=binary_array(edges, pa.py_buffer(data)).take(2 * np.arange(count)),
    )


class _Reader:
    """A position in each record, all of them moved on together; `data` ends with padding."""

    __slots__ = ("at", "buffer", "data", "ends")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.buffer = np.frombuffer(data, np.uint8)
        self.at: Numbers = np.empty(0, np.int64)
        self.ends: Numbers = self.at

    def enter(self, positions: Numbers, end: int) -> None:
        """Begin with records at these positions; each ends where the next one begins."""
        self.at, self.ends = positions, np.append(positions[1:], end)
        sizes = self.number()
        if ((sizes < 0) | (self.at + sizes != self.ends)).any():
            raise ProtocolError("a record whose size is wrong")

    def number(self, longest: int = INT_BYTES) -> Numbers:
        """The zig-zag varint at each position, as Java reads it: of 32 bits, or of 64."""
        values, self.at = read_varints(self.buffer, self.at, longest)
        return values

    def skip(self, sizes: Numbers) -> None:
        """Move on by so many bytes in each record."""
        self.at = self.at + sizes
        if (self.at > self.ends).any():
            raise ProtocolError("a record field that is longer than its record")

    def skip_headers(self, counts: Numbers) -> None:
        """Move on behind so many headers in each record."""
        if (counts < 0).any():
            raise ProtocolError("a negative number of record headers")
        rows = np.flatnonzero(counts)
        while rows.size > _FEW:
            self.at[rows] = _behind_header(self.buffer, self.at[rows], self.ends[rows])
            counts[rows] -= 1
            rows = rows[counts[rows] > 0]
        for row in rows:
            self.at[row] = _behind_headers(self.data, int(self.at[row]), int(counts[row]))

    def leave(self) -> None:
        """All of every record must have been read."""
        if (self.at != self.ends).any():
            raise ProtocolError("a record that ends elsewhere than its size says")


def _behind_header(buffer: Bytes, at: Numbers, ends: Numbers) -> Numbers:
    sizes, at = read_varints(buffer, at, INT_BYTES)
    at = at + sizes
    if ((sizes < 0) | (at > ends)).any():
        raise ProtocolError("a record header whose key is wrong")
    sizes, at = read_varints(buffer, at, INT_BYTES)
    at = at + np.maximum(sizes, 0)
    if (at > ends).any():
        raise ProtocolError("a record header that is longer than its record")
    return at


def _behind_headers(data: memoryview | bytes, position: int, count: int) -> int:
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise ProtocolError("a record header without a key")
        size, position = read_varint(data, position + size)
        position += max(size, 0)
    return position
