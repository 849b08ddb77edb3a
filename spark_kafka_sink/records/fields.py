"""The fields of all records of a batch as columns, every length checked, without Python per field.

Records state their own sizes, so one can be found only behind the one before it. Where sizes repeat
a stride finds many at once; elsewhere a loop that reads nothing but sizes does. Source: Kafka's
``DefaultRecord.readFrom`` and ``ByteUtils.readVarint``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_kafka_sink.base.errors import ProtocolError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Column = NDArray[np.int64]

_STEP: Final = 1024
"""Records looked for at once."""

_WORTH: Final = 16
"""Records of one size from which on a stride beats the loop."""

_FEW: Final = 16
"""Records, or those with more headers, up to which Python alone is faster than columns."""

_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10
_MORE: Final = 0x80
_ONE_BYTE: Final = np.array([(raw >> 1) ^ -(raw & 1) for raw in range(_MORE)], np.int64)
_INT_MASK: Final = (1 << 32) - 1
_LONG_MASK: Final = (1 << 64) - 1
_SMALLEST: Final = 7
"""Bytes of a record with nothing in it."""

_PADDING: Final = bytes(2 * _LONG_BYTES)
"""A number at the very end may be read beyond it, before that is found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One value per record; a key of negative size is null."""

    time_deltas: Column
    offset_deltas: Column
    key_sizes: Column


def read_fields(section: memoryview | bytes, count: int) -> Fields:
    """Read an uncompressed records section that has to hold `count` records and nothing else.

    Raises:
        ProtocolError: it does not.
    """
    end = len(section)
    if count * _SMALLEST > end:
        raise ProtocolError(f"{count} records can't be in {end} bytes")
    data = b"".join((section, _PADDING))
    if count <= _FEW:
        return _read_few(data, end, count)
    reader = _Reader(data)
    reader.enter(_positions(reader, end, count), end)
    reader.at = reader.at + 1
    time_deltas = reader.number(_LONG_BYTES)
    offset_deltas = reader.number()
    key_sizes = reader.number()
    reader.skip(np.maximum(key_sizes, 0))
    reader.skip(np.maximum(reader.number(), 0))
    reader.skip_headers(reader.number())
    reader.leave()
    return Fields(time_deltas=time_deltas, offset_deltas=offset_deltas, key_sizes=key_sizes)


def _read_few(data: bytes, end: int, count: int) -> Fields:
    """The same one by one: to set columns up takes longer than this."""
    found, position = np.empty((3, count), np.int64), 0
    for index in range(count):
        size, start = _number(data, position)
        position = start + size
        if size < _SMALLEST - 1 or position > end:
            raise ProtocolError(f"a record of {size} bytes")
        found[:, index] = _read_one(data, start, position)
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the last record of a batch")
    return Fields(time_deltas=found[0], offset_deltas=found[1], key_sizes=found[2])


def _read_one(data: bytes, start: int, end: int) -> tuple[int, int, int]:
    time_delta, at = _number(data, start + 1, _LONG_BYTES)
    offset_delta, at = _number(data, at)
    key_size, at = _number(data, at)
    size, at = _number(data, at + max(key_size, 0))
    headers, at = _number(data, at + max(size, 0))
    if headers < 0 or _behind_headers(data, at, headers) != end:
        raise ProtocolError("a record that ends elsewhere than its size says")
    return time_delta, offset_delta, key_size


class _Reader:
    """A position in each record, all of them moved on together; `data` ends with padding."""

    __slots__ = ("at", "buffer", "data", "ends")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.buffer = np.frombuffer(data, np.uint8)
        self.at: Column = np.empty(0, np.int64)
        self.ends: Column = self.at

    def enter(self, positions: Column, end: int) -> None:
        """Begin with records at these positions; each ends where the next one begins."""
        self.at, self.ends = positions, np.append(positions[1:], end)
        sizes = self.number()
        if ((sizes < 0) | (self.at + sizes != self.ends)).any():
            raise ProtocolError("a record whose size is wrong")

    def number(self, longest: int = _INT_BYTES) -> Column:
        """The zig-zag varint at each position, as Java reads it: of 32 bits, or of 64."""
        values, self.at = _numbers(self.buffer, self.at, longest)
        return values

    def skip(self, sizes: Column) -> None:
        """Move on by so many bytes in each record."""
        self.at = self.at + sizes
        if (self.at > self.ends).any():
            raise ProtocolError("a record field that is longer than its record")

    def skip_headers(self, counts: Column) -> None:
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


def _numbers(buffer: Bytes, at: Column, longest: int) -> tuple[Column, Column]:
    """The varints at some positions, and the positions behind them: mostly of a byte or two."""
    first = buffer.take(at)
    if first.max() < _MORE:
        return _ONE_BYTE.take(first), at + 1
    raw = first.astype(np.int64)
    two = raw >> 7
    second = buffer.take(at + 1) * two
    if second.max() >= _MORE:
        return _long_numbers(buffer, at, longest)
    raw = raw & 0x7F | second << 7
    return (raw >> 1) ^ -(raw & 1), at + 1 + two


def _long_numbers(buffer: Bytes, at: Column, longest: int) -> tuple[Column, Column]:
    first = buffer.take(at)
    raw, behind = (first & 0x7F).astype(np.uint64), at + 1
    rows = np.flatnonzero(first & _MORE)
    for number in range(1, longest):
        if not rows.size:
            break
        more = buffer[behind[rows]]
        raw[rows] |= (more & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        behind[rows] += 1
        rows = rows[more >= _MORE]
    if rows.size:
        raise ProtocolError(f"a varint of more than {longest} bytes")
    if longest == _INT_BYTES:
        raw &= np.uint64(_INT_MASK)
    signed = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
    return signed, behind


def _behind_header(buffer: Bytes, at: Column, ends: Column) -> Column:
    sizes, at = _numbers(buffer, at, _INT_BYTES)
    at = at + sizes
    if ((sizes < 0) | (at > ends)).any():
        raise ProtocolError("a record header whose key is wrong")
    sizes, at = _numbers(buffer, at, _INT_BYTES)
    at = at + np.maximum(sizes, 0)
    if (at > ends).any():
        raise ProtocolError("a record header that is longer than its record")
    return at


def _behind_headers(data: bytes, position: int, count: int) -> int:
    for _ in range(count):
        size, position = _number(data, position)
        if size < 0:
            raise ProtocolError("a record header without a key")
        size, position = _number(data, position + size)
        position += max(size, 0)
    return position


def _number(data: bytes, position: int, longest: int = _INT_BYTES) -> tuple[int, int]:
    """One varint of 32 or 64 bits, and the position behind it."""
    raw = 0
    for index, byte in enumerate(data[position : position + longest]):
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= _INT_MASK if longest == _INT_BYTES else _LONG_MASK
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    raise ProtocolError(f"a varint of more than {longest} bytes")


def _positions(reader: _Reader, end: int, count: int) -> Column:
    """Where each record begins, its size included."""
    pieces: list[Column] = []
    position, left = 0, count
    while left:
        wanted = min(left, _STEP)
        piece, position = _strided(reader, position, end, wanted)
        pieces.append(piece)
        if len(piece) < min(wanted, _WORTH):
            more, position = _one_by_one(reader.data, position, end, wanted - len(piece))
            pieces.append(more)
            left -= len(more)
        left -= len(piece)
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the last record of a batch")
    return np.concatenate(pieces)


def _strided(reader: _Reader, position: int, end: int, wanted: int) -> tuple[Column, int]:
    """Records from a position on that are as long as the first, and where the next one begins."""
    size, body = _number(reader.data, position)
    step, stop = body - position + size, min(wanted, (end - position) // max(size, 1))
    if size < _SMALLEST - 1 or body + size > end:
        raise ProtocolError(f"a record of {size} bytes")
    alike = np.ones(stop, np.bool_)
    for index in range(position, body):
        column = reader.buffer[index : index + stop * step : step]
        alike[: len(column)] &= column == reader.data[index]
        alike[len(column) :] = False
    found = stop if alike.all() else int(alike.argmin())
    found = min(found, (end - position) // step)
    return position + step * np.arange(found), position + step * found


def _one_by_one(data: bytes, position: int, end: int, wanted: int) -> tuple[Column, int]:
    """As `_strided`, whatever their sizes; a negative one is found out later."""
    found: list[int] = []
    for _ in range(wanted):
        if position >= end:
            raise ProtocolError("fewer records in a batch than its header says")
        found.append(position)
        size = data[position]
        if size < 0x80:
            position += 1 + (size >> 1)
        elif (more := data[position + 1]) < 0x80:
            position += 2 + ((size & 0x7F | more << 7) >> 1)
        else:
            size, position = _number(data, position)
            position += max(size, 0)
    return np.array(found, np.int64), position
