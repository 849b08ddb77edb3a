"""Rows as Arrow columns, binary arrays as numpy views, and inline binary views.

Arrow's binary view holds a value of up to twelve bytes inline, in two 64-bit numbers: size and
first four bytes, then the other eight. An `InlineView` builds such views for all rows at once with
shifts, joining short byte strings in 64-bit registers instead of byte by byte; the first byte is
always the lowest one.

Source: the Arrow columnar format's "Variable-size Binary View Layout".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """One chunk of n records, every column of length n.

    `value` and `key` are binary (nulls allowed; `key` None means that every key is null), `headers`
    holds each row's encoded header section (None: no row has headers), `timestamps` is int64
    milliseconds (None: the time of arrival).
    """

    value: pa.BinaryArray
    key: pa.BinaryArray | None = None
    headers: pa.BinaryArray | None = None
    timestamps: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.value)

    def slice(self, start: int, stop: int) -> Columns:
        """Return rows start..stop as views."""
        count = stop - start
        return Columns(
            value=self.value.slice(start, count),
            key=None if self.key is None else self.key.slice(start, count),
            headers=None if self.headers is None else self.headers.slice(start, count),
            timestamps=None if self.timestamps is None else self.timestamps[start:stop],
        )

    def take(self, numbers: NDArray[np.intp]) -> Columns:
        """Return the rows with these numbers, copied."""
        return Columns(
            value=self.value.take(numbers),
            key=None if self.key is None else self.key.take(numbers),
            headers=None if self.headers is None else self.headers.take(numbers),
            timestamps=None if self.timestamps is None else self.timestamps[numbers],
        )


def binary_array(offsets: NDArray[np.int32], data: NDArray[np.uint8] | pa.Buffer) -> pa.BinaryArray:
    """Return a BinaryArray without nulls over n + 1 offsets and their bytes, without copying."""
    body = data if isinstance(data, pa.Buffer) else pa.py_buffer(data.data)
    buffers = [None, pa.py_buffer(offsets.data), body]
    return cast(
        "pa.BinaryArray", pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    )


def offsets_of(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the n + 1 int32 offsets of a binary array or of its slice, as a view."""
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(1, np.int32)
    whole: NDArray[np.int32] = np.frombuffer(memoryview(buffer), np.int32)
    return whole[array.offset : array.offset + len(array) + 1]


def lengths_of(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the byte length of every row of an array without nulls, as int32 of shape (n,)."""
    offsets = offsets_of(array)
    return offsets[1:] - offsets[:-1]


def nullable_lengths(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the byte length of every row, -1 for null (as Kafka writes it), int32 (n,)."""
    lengths = lengths_of(array)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = -1
    return lengths


def lengths_without_null(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the byte length of every row, 0 for null, int32 of shape (n,)."""
    lengths = lengths_of(array)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = 0
    return lengths


def read_bytes(column: pa.Array[Any]) -> pa.BinaryArray:
    """Return a column of strings or binary (plain, large or dictionary-encoded) as binary."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return _narrowed(column)
    return cast("pa.BinaryArray", column.cast(pa.binary()))


def _narrowed(column: pa.Array[Any]) -> pa.BinaryArray:
    """Return a large column with 32-bit offsets, relative to the start of the slice.

    Arrow's own cast fails if a slice's offsets are far from the start of the column.
    """
    _, offsets_buffer, data = column.buffers()
    if offsets_buffer is None or not len(column):
        return pa.nulls(len(column), pa.binary())
    offsets = np.frombuffer(
        memoryview(offsets_buffer), np.int64, len(column) + 1, 8 * column.offset
    )
    first, last = int(offsets[0]), int(offsets[-1])
    body = pa.py_buffer(b"") if data is None else data.slice(first, last - first)
    array = binary_array((offsets - first).astype(np.int32), body)
    if not column.null_count:
        return array
    valid = np.packbits(np.asarray(column.is_valid()), bitorder="little").tobytes()
    buffers = [pa.py_buffer(valid), *array.buffers()[1:]]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), len(array), buffers))


INLINE_SIZE = 12
"""Bytes that a binary view holds inline."""
REGISTER_SIZE = 8
"""Maximum bytes of one append, the width of a register."""

_BYTE_BITS = np.uint64(3)
"""Left shift that converts a number of bytes to bits."""
_HALF = np.uint64(32)
_WHOLE = np.uint64(64)


class VarintBytes(NamedTuple):
    """Up to eight bytes of every row; both arrays have shape (n,), or (1,) if all rows are equal.

    `bytes` has the first byte lowest, and zeros after its `size`, which is at most `largest`.
    """

    bytes: NDArray[np.uint64]
    size: NDArray[np.uint64]
    largest: int


@lru_cache(maxsize=1024)
def constant_bytes(value: bytes) -> VarintBytes:
    """Return the same bytes, eight at most, for every row.

    The cache serves the few values that repeat; chunks of one row have new values each time.
    """
    number = np.array([int.from_bytes(value, "little")], np.uint64)
    return VarintBytes(number, np.array([len(value)], np.uint64), len(value))


class InlineView:
    """Up to `INLINE_SIZE` bytes of every row; the size may differ from row to row."""

    __slots__ = ("_high", "_low", "largest", "size")

    size: NDArray[np.uint64]
    """Bytes of each row, shape (n,), or (1,) if all rows have the same."""
    largest: int
    """Maximum bytes of a row."""

    def __init__(self, first: VarintBytes) -> None:
        self._low, self.size, self.largest = first
        self._high = _ZERO

    def fits(self, more: VarintBytes | InlineView) -> bool:
        """Return True if these bytes fit into every row."""
        return self.largest + more.largest <= INLINE_SIZE

    def append(self, more: VarintBytes) -> None:
        """Append these bytes to every row.

        Shifts by 64 or more give 0; negative shifts also do, because they wrap around.
        """
        bits = self.size << _BYTE_BITS
        self._low = self._low | (more.bytes << bits)
        self.largest += more.largest
        if self.largest > REGISTER_SIZE:
            beyond = (more.bytes >> (_WHOLE - bits)) | (more.bytes << (bits - _WHOLE))
            self._high = self._high | beyond
        self.size = self.size + more.size

    def where(self, mask: NDArray[np.bool_]) -> InlineView:
        """Return the bytes of the rows where the mask, shape (n,), is True; others are empty."""
        keep = mask.astype(np.uint64)
        kept = InlineView(VarintBytes(self._low * keep, self.size * keep, self.largest))
        kept._high = self._high * keep
        return kept

    def register(self) -> VarintBytes | None:
        """Return the bytes if those of every row fit into a register."""
        if self.largest > REGISTER_SIZE:
            return None
        return VarintBytes(self._low, self.size, self.largest)

    def write(self, views: NDArray[np.uint64]) -> None:
        """Write the binary view of each row, shape (n, 2)."""
        np.bitwise_or(self._low << _HALF, self.size, out=views[:, 0])
        np.bitwise_or(self._low >> _HALF, self._high << _HALF, out=views[:, 1])


_ZERO = np.zeros(1, np.uint64)
