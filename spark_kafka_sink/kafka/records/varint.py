"""Zig-zag varints: single numbers, or whole columns without Python code per row.

When encoding, small numbers (lengths, offset deltas) are looked up in a table of encoded varints.
All other numbers are encoded in NumPy, in groups of seven bits. Decoding follows Java: 32 bits in
at most five bytes, or 64 bits in at most ten bytes. Callers of `read_varints` must ensure that this
many bytes follow each position.

Source: Kafka's ``ByteUtils.writeVarlong`` and ``ByteUtils.readVarint``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.codec import write_uvarint
from spark_kafka_sink.kafka.records.columns import REGISTER_SIZE, VarintBytes, binary_array

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Numbers: TypeAlias = NDArray[np.int64]
    Integers: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

INT_BYTES: Final = 5
LONG_BYTES: Final = 10

TABLE_SIZE = 1 << 16
"""Values from -1 to TABLE_SIZE - 2 are looked up in the table."""

_SEVEN_BITS = np.uint64(0x7F)
_CONTINUES: Final = 0x80
"""The bit that is set if another byte of the varint follows."""
_ONE_BYTE: Final = np.array([(raw >> 1) ^ -(raw & 1) for raw in range(_CONTINUES)], np.int64)
_INT_MASK: Final = (1 << 32) - 1
_LONG_MASK: Final = (1 << 64) - 1


def varint(value: int) -> bytes:
    """Return a number as a zig-zag varint, for headers and constants."""
    return write_uvarint((value << 1) ^ (value >> 63))


def varint_size(value: int) -> int:
    """Return the size of `varint(value)` in bytes."""
    zigzag = (value << 1) ^ (value >> 63)
    return max(1, (zigzag.bit_length() + 6) // 7)


def build_varints(values: Integers) -> pa.BinaryArray:
    """Encode any values, shape (n,), as n binary rows of 1 to 10 bytes."""
    wide = values.astype(np.int64, copy=False)
    zigzag = ((wide << 1) ^ (wide >> 63)).astype(np.uint64)
    sizes = np.ones(len(values), np.int32)
    for position in range(1, 10):
        sizes += zigzag >= np.uint64(1 << 7 * position)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.zeros(offsets[-1], np.uint8)
    starts, rows = offsets[:-1], np.arange(len(values))
    for position in range(int(sizes.max(initial=0))):
        rows = rows[sizes[rows] > position]
        septet = ((zigzag[rows] >> np.uint64(7 * position)) & _SEVEN_BITS).astype(np.uint8)
        septet[sizes[rows] > position + 1] |= np.uint8(_CONTINUES)
        data[starts[rows] + position] = septet
    return binary_array(offsets, data)


def extremes(values: Integers) -> tuple[int, int]:
    """Return the lowest and the highest value, or 0 and 0 if there are no values."""
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def varint_bytes(values: Integers, low: int, high: int) -> VarintBytes | None:
    """Return the zig-zag varint of each row, or None if a varint has more than eight bytes.

    `low` and `high` are the lowest and the highest of the values, which have shape (n,).
    """
    largest = max(varint_size(low), varint_size(high))
    if low >= -1 and high < TABLE_SIZE - 1:
        entries = values.astype(np.intp) + 1
        return VarintBytes(_table().take(entries), _sizes(values, low, high), largest)
    if largest > REGISTER_SIZE:
        return None
    return _built(values, largest)


@cache
def _table() -> NDArray[np.uint64]:
    """Return the varints of -1, 0, 1 …; the varint of v is at index v + 1."""
    return _built(np.arange(-1, TABLE_SIZE - 1), 3).bytes


def _sizes(values: Integers, low: int, high: int) -> NDArray[np.uint64]:
    """Return the size of each varint, for values from `low` (at least -1) to `high`.

    Shape (n,), or (1,) if all sizes are equal.
    """
    smallest, largest = varint_size(max(low, 0)), varint_size(high)
    sizes = np.full(1 if smallest == largest else len(values), smallest, np.uint64)
    for size in range(smallest, largest):
        sizes += values >= (1 << 7 * size - 1)
    return sizes


def _built(values: Integers, largest: int) -> VarintBytes:
    """Encode values as varints of at most `largest` bytes, where `largest` is at most eight."""
    wide = values.astype(np.int64, copy=False)
    zigzag = ((wide << 1) ^ (wide >> 63)).astype(np.uint64)
    encoded = zigzag & _SEVEN_BITS
    sizes = np.ones(len(values), np.uint64)
    for index in range(1, largest):
        remaining_bits = zigzag >> np.uint64(7 * index)
        continues = remaining_bits != 0
        encoded |= (remaining_bits & _SEVEN_BITS) << np.uint64(8 * index)
        encoded |= continues.astype(np.uint64) << np.uint64(8 * index - 1)
        sizes += continues
    return VarintBytes(encoded, sizes, largest)


def read_varints(buffer: Bytes, positions: Numbers, longest: int) -> tuple[Numbers, Numbers]:
    """Return the varints at these positions, and the positions after them.

    Optimized for varints of one or two bytes, which is the usual case.
    """
    first = buffer.take(positions)
    if first.max() < _CONTINUES:
        return _ONE_BYTE.take(first), positions + 1
    raw = first.astype(np.int64)
    has_second_byte = raw >> 7
    second = buffer.take(positions + 1) * has_second_byte
    if second.max() >= _CONTINUES:
        return _longer(buffer, positions, longest)
    raw = raw & 0x7F | second << 7
    return (raw >> 1) ^ -(raw & 1), positions + 1 + has_second_byte


def _longer(buffer: Bytes, positions: Numbers, longest: int) -> tuple[Numbers, Numbers]:
    first = buffer.take(positions)
    raw, after = (first & 0x7F).astype(np.uint64), positions + 1
    rows = np.flatnonzero(first & _CONTINUES)
    for number in range(1, longest):
        if not rows.size:
            break
        next_bytes = buffer[after[rows]]
        raw[rows] |= (next_bytes & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        after[rows] += 1
        rows = rows[next_bytes >= _CONTINUES]
    if rows.size:
        raise ProtocolError(f"a varint is truncated or longer than {longest} bytes")
    if longest == INT_BYTES:
        raw &= np.uint64(_INT_MASK)
    signed = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
    return signed, after


def read_varint(
    data: bytes | memoryview, position: int, longest: int = INT_BYTES
) -> tuple[int, int]:
    """Return the varint at a position, which is usually one byte, and the position after it.

    Raises:
        ProtocolError: the varint is truncated, or has more than `longest` bytes.
    """
    if position < len(data) and (raw := data[position]) < _CONTINUES:
        return (raw >> 1) ^ -(raw & 1), position + 1
    return _read_long(data, position, longest)


def _read_long(data: bytes | memoryview, position: int, longest: int) -> tuple[int, int]:
    raw = 0
    for index, byte in enumerate(data[position : position + longest]):
        raw |= (byte & 0x7F) << (7 * index)
        if byte < _CONTINUES:
            raw &= _INT_MASK if longest == INT_BYTES else _LONG_MASK
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    raise ProtocolError(f"a varint is truncated or longer than {longest} bytes")
