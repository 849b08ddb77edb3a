"""Zig-zag varints as Arrow columns: one encoded varint per row, without Python per row.

Small numbers (lengths, offset deltas) are looked up in a table of encoded varints; others are built
septet by septet in numpy. Source: Kafka's ``ByteUtils.writeVarlong``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.records.inline_views import CODE_SIZE, VarintBytes, constant_code

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLE_SIZE = 1 << 16
"""Values -1 .. TABLE_SIZE - 2 are answered from the table."""

_SEVEN_BITS = np.uint64(0x7F)
_MORE = np.uint8(0x80)


def varint(value: int) -> bytes:
    """One zig-zag varint, for headers and constants."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def varint_size(value: int) -> int:
    """Bytes that `varint` takes for this value."""
    zigzag = (value << 1) ^ (value >> 63)
    return max(1, (zigzag.bit_length() + 6) // 7)


def binary_array(offsets: NDArray[np.int32], data: NDArray[np.uint8] | pa.Buffer) -> pa.BinaryArray:
    """A BinaryArray without nulls over n + 1 int32 offsets and their bytes; nothing is copied."""
    body = data if isinstance(data, pa.Buffer) else pa.py_buffer(data.data)
    buffers = [None, pa.py_buffer(offsets.data), body]
    return cast(
        "pa.BinaryArray", pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    )


def offsets_of(array: pa.BinaryArray) -> NDArray[np.int32]:
    """The n + 1 int32 offsets of a binary array, as a view that respects its slice."""
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(1, np.int32)
    whole: NDArray[np.int32] = np.frombuffer(memoryview(buffer), np.int32)
    return whole[array.offset : array.offset + len(array) + 1]


def lengths_of(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Byte length of every row of a binary array without nulls, as int32 of shape (n,)."""
    lengths: NDArray[np.int32] = np.diff(offsets_of(array))
    return lengths


def build_varints(values: NDArray[np.int32] | NDArray[np.int64]) -> pa.BinaryArray:
    """Encode any values, shape (n,), into n binary rows of 1 to 10 bytes."""
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
        septet[sizes[rows] > position + 1] |= _MORE
        data[starts[rows] + position] = septet
    return binary_array(offsets, data)


def varint_codes(
    values: NDArray[np.int32] | NDArray[np.int64], room: int = 0
) -> VarintBytes | None:
    """The zig-zag varint of each row, shape (n,); None if one takes more than eight bytes.

    They count as `room` bytes at least.
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    largest = max(varint_size(low), varint_size(high))
    if low == high:
        return constant_code(varint(low)) if largest <= CODE_SIZE else None
    if low >= -1 and high < TABLE_SIZE - 1:
        entries = values.astype(np.intp) + 1
        return VarintBytes(_table().take(entries), _sizes(values, low, high), max(largest, room))
    if largest > CODE_SIZE:
        return None
    return _built(values, largest)


@cache
def _table() -> NDArray[np.uint64]:
    """The varints of -1, 0, 1 …, so that v stands at v + 1."""
    return _built(np.arange(-1, TABLE_SIZE - 1), 3).bytes


def _sizes(
    values: NDArray[np.int32] | NDArray[np.int64], low: int, high: int
) -> NDArray[np.uint64]:
    """Bytes of each varint, for values from `low`, -1 at least, to `high`; one for all if it can.

    Shape (n,) or (1,).
    """
    least, largest = varint_size(max(low, 0)), varint_size(high)
    sizes = np.full(1 if least == largest else len(values), least, np.uint64)
    for size in range(least, largest):
        sizes += values >= (1 << 7 * size - 1)
    return sizes


def _built(values: NDArray[np.int32] | NDArray[np.int64], largest: int) -> VarintBytes:
    """The varints of any values that take at most `largest` bytes, up to eight."""
    wide = values.astype(np.int64, copy=False)
    zigzag = ((wide << 1) ^ (wide >> 63)).astype(np.uint64)
    codes = zigzag & _SEVEN_BITS
    sizes = np.ones(len(values), np.uint64)
    for place in range(1, largest):
        rest = zigzag >> np.uint64(7 * place)
        goes_on = rest != 0
        codes |= (rest & _SEVEN_BITS) << np.uint64(8 * place)
        codes |= goes_on.astype(np.uint64) << np.uint64(8 * place - 1)
        sizes += goes_on
    return VarintBytes(codes, sizes, largest)
