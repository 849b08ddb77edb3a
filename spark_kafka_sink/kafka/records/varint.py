"""Varints, also zig-zag encoded: single numbers, or whole columns without Python code per row.

Decoding follows Java: 32 bits in at most five bytes, or 64 bits in at most ten bytes. Callers of
`read_varints` must ensure that this many bytes follow each position.

Source: Kafka's ``ByteUtils.writeVarlong`` and ``ByteUtils.readVarint``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.message_format import write_uvarint
from spark_kafka_sink.kafka.records.views import REGISTER_SIZE, ShortBytes, constant_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Numbers: TypeAlias = NDArray[np.int64]
    Integers: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
    Words: TypeAlias = NDArray[np.uint64]

INT_BYTES = 5
LONG_BYTES = 10

_SEPTETS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
    )
)
"""Masks and shifts that spread 56 bits over eight bytes by repeated halving."""
_STEPS = ((1 << 28, 0), (1 << 14, 1), (0, 2))
"""For each limit, the first step that is needed for numbers from the limit on."""
_CONTINUATION_BITS = np.array(
    [0x8080808080808080 & ((1 << 8 * max(size - 1, 0)) - 1) for size in range(9)]
    + [0x8080808080808080] * 2,
    np.uint64,
)
"""Continuation bits of the first eight bytes of a varint, by its size in bytes."""
_TABLE_SIZE = 1 << 15
"""Smaller numbers are looked up in a table of varints: most lengths, and the offset deltas of the
10,000 rows that Spark puts into a batch by default."""
_EIGHT = np.uint64(REGISTER_SIZE)
_FIRST_BITS = np.uint64((1 << 7 * REGISTER_SIZE) - 1)
_CONTINUES = 0x80
"""The bit that is set if another byte of the varint follows."""
_ONE_BYTE = np.array([(raw >> 1) ^ -(raw & 1) for raw in range(_CONTINUES)], np.int64)
_INT_MASK = (1 << 32) - 1
_LONG_MASK = (1 << 64) - 1


def varint(value: int) -> bytes:
    """Return a number as a zig-zag varint, for headers and constants."""
    return write_uvarint((value << 1) ^ (value >> 63))


def varint_size(value: int) -> int:
    """Return the size of `varint(value)` in bytes."""
    encoded = (value << 1) ^ (value >> 63)
    return max(1, (encoded.bit_length() + 6) // 7)


def zigzag(values: Integers) -> Words:
    """Return the zig-zag encoding of each number, shape (n,)."""
    wide = values.astype(np.int64, copy=False)
    return ((wide << 1) ^ (wide >> 63)).view(np.uint64)


def _septets(values: Words, high: int) -> Words:
    """Return numbers of up to 56 bits with seven bits per byte; `high` is the largest number."""
    first = next(step for lower_bound, step in _STEPS if high >= lower_bound)
    for low_mask, high_mask, shift in _SEPTETS[first:]:
        values = (values & low_mask) | ((values & high_mask) << shift)
    return values


def _varint_sizes(values: Words, low: int, high: int) -> Words:
    """Return the size of each varint in bytes; shape (1,) if it is the same for all."""
    min_size, max_size = len(write_uvarint(low)), len(write_uvarint(high))
    if min_size == max_size:
        return constant_size(min_size)
    sizes = np.full(len(values), min_size, np.uint64)
    for size in range(min_size, max_size):
        sizes += values >= np.uint64(1 << 7 * size)
    return sizes


def short_varints(values: Words, low: int, high: int) -> ShortBytes:
    """Return varints of at most eight bytes."""
    sizes = _varint_sizes(values, low, high)
    if high < 1 << 7:
        return ShortBytes(values, sizes, 1)
    if high < _TABLE_SIZE:
        return ShortBytes(
            _varint_table().take(values.view(np.int64)), sizes, len(write_uvarint(high))
        )
    return ShortBytes(_encode_varints(values, sizes, high), sizes, len(write_uvarint(high)))


@cache
def _varint_table() -> Words:
    """Return the varints of the numbers below `_TABLE_SIZE`."""
    numbers = np.arange(_TABLE_SIZE, dtype=np.uint64)
    return _encode_varints(numbers, _varint_sizes(numbers, 0, _TABLE_SIZE - 1), _TABLE_SIZE)


def _encode_varints(values: Words, sizes: Words, high: int) -> Words:
    return _septets(values, high) | _CONTINUATION_BITS.take(sizes.view(np.int64))


def long_varints(values: Words) -> tuple[ShortBytes, ShortBytes]:
    """Return varints of up to ten bytes in two parts: the first eight bytes, and the others."""
    sizes = _varint_sizes(values, 0, (1 << 64) - 1)
    first = np.minimum(sizes, _EIGHT)
    encoded = _septets(values & _FIRST_BITS, 1 << 55) | _CONTINUATION_BITS.take(
        sizes.view(np.int64)
    )
    high_bits = values >> np.uint64(7 * REGISTER_SIZE)
    second = (high_bits & np.uint64(0x7F)) | ((high_bits >> np.uint64(7)) << np.uint64(8))
    second |= (sizes == 10).astype(np.uint64) << np.uint64(7)
    return ShortBytes(encoded, first, REGISTER_SIZE), ShortBytes(second, sizes - first, 2)


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
        return _read_longer(buffer, positions, longest)
    raw = raw & 0x7F | second << 7
    return (raw >> 1) ^ -(raw & 1), positions + 1 + has_second_byte


def _read_longer(buffer: Bytes, positions: Numbers, longest: int) -> tuple[Numbers, Numbers]:
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
