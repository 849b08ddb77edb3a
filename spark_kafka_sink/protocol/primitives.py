"""Kafka's wire types: each reader takes (data, offset) and returns (value, next offset).

They trust nothing: a length is compared with the bytes left before anything is sliced or built.
A read past the end surfaces as IndexError or struct.error, which `codec.decode` turns into
ProtocolError together with everything raised here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from spark_kafka_sink.common.errors import ProtocolError

Reader: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]

MAX_VARINT_BYTES = 5
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_ZERO = bytes(16)
_LONGEST_MS = timedelta.max // timedelta(milliseconds=1)
_SHORTEST_MS = timedelta.min // timedelta(milliseconds=1)


def read_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes and 32 bits."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for position in range(1, MAX_VARINT_BYTES):
        byte = data[at + position]
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            if value >> 32:
                break
            return value, at + position + 1
    raise ProtocolError("a varint does not fit into 32 bits")


def write_uvarint(value: int) -> bytes:
    """Write an unsigned varint."""
    if value <= 0x7F:
        return value.to_bytes(1, "big")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def compact_length(data: memoryview, at: int) -> tuple[int, int]:
    """Read a length of the flexible format; -1 stands for null."""
    length, at = read_uvarint(data, at)
    return length - 1, at


def string_length(data: memoryview, at: int) -> tuple[int, int]:
    """Read a string's length before KIP-482; negative stands for null."""
    return _INT16.unpack_from(data, at)[0], at + 2


def long_length(data: memoryview, at: int) -> tuple[int, int]:
    """Read the length of bytes or of an array before KIP-482; negative stands for null."""
    return _INT32.unpack_from(data, at)[0], at + 4


def _text(data: memoryview, start: int, end: int) -> str:
    return str(data[start:end], "utf-8")


def _slice(data: memoryview, start: int, end: int) -> memoryview:
    return data[start:end]


def sized_reader(length_of: Reader, *, text: bool, nullable: bool) -> Reader:
    """Make the reader of a string (text) or of bytes, which come as a slice without a copy."""
    take = _text if text else _slice

    def read(data: memoryview, at: int) -> tuple[object, int]:
        length, start = length_of(data, at)
        if length < 0:
            if nullable:
                return None, start
            raise ProtocolError("null where the protocol wants a value")
        end = start + length
        if end > len(data):
            raise ProtocolError(f"a length of {length} with {len(data) - start} bytes left")
        return take(data, start, end), end

    return read


@lru_cache
def milliseconds(value: int) -> timedelta:
    """Turn milliseconds into a duration.

    Beyond what timedelta holds, which is 2.7 million years, it is the longest one, or the
    shortest: Java's way to say "for ever" is Long.MAX_VALUE.
    """
    return timedelta(milliseconds=max(_SHORTEST_MS, min(value, _LONGEST_MS)))


class FarTime(NamedTuple):
    """A time outside the years 1 to 9999, which datetime does not have."""

    milliseconds: int

    def timestamp(self) -> Fraction:
        """Seconds since 1970, as `datetime.timestamp`, but exact: writers call it."""
        return Fraction(self.milliseconds, 1000)


def timestamp(value: int) -> datetime | FarTime:
    """Turn milliseconds since 1970 into UTC time.

    Kafka writes -1 also where the schema knows no null, for a transaction that has not begun.
    """
    try:
        return _EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        return FarTime(value)


def optional_timestamp(value: int) -> datetime | FarTime | None:
    """As `timestamp`, where Kafka's -1 is no time at all."""
    return None if value == -1 else timestamp(value)


def uuid(value: bytes) -> UUID | None:
    """Turn 16 bytes into a UUID; Kafka's zero id is no id."""
    return None if value == _UUID_ZERO else UUID(bytes=value)
