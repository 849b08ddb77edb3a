"""Rows as Arrow columns, binary arrays as NumPy views, and inline binary views.

In Arrow's binary view layout, a value of up to twelve bytes is stored inline in two 64-bit numbers.
The first contains the size and the first four bytes, the second contains the remaining bytes.
`InlineView` builds these views for all rows at once: it joins short byte strings with 64-bit shifts
instead of byte by byte. The first byte is always the least significant.

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

INLINE_SIZE = 12
"""Maximum number of bytes that a binary view stores inline."""
REGISTER_SIZE = 8
"""Maximum number of bytes that one append adds: the width of a 64-bit register."""
_BYTE_BITS = np.uint64(3)
"""Left shift that converts a number of bytes to bits."""
_HALF = np.uint64(32)
_WHOLE = np.uint64(64)
_ZERO = np.zeros(1, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A chunk of n records, in columns of length n.

    `value` and `key` are binary and can contain nulls; if `key` is None, every key is null.
    `headers` contains the encoded header section of each row; None if no row has headers.
    `timestamps` contains milliseconds as int64; None for the time of arrival.
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
        """Return a copy of the rows with these numbers."""
        return Columns(
            value=self.value.take(numbers),
            key=None if self.key is None else self.key.take(numbers),
            headers=None if self.headers is None else self.headers.take(numbers),
            timestamps=None if self.timestamps is None else self.timestamps[numbers],
        )


def binary_array(offsets: NDArray[np.int32], data: NDArray[np.uint8] | pa.Buffer) -> pa.BinaryArray:
    """Return a BinaryArray without nulls from n + 1 offsets and the bytes, without copying."""
    body = data if isinstance(data, pa.Buffer) else pa.py_buffer(data.data)
    buffers = [None, pa.py_buffer(offsets.data), body]
    return cast(
        "pa.BinaryArray", pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    )


def offsets_of(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the n + 1 int32 offsets of a binary array or slice, as a view."""
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(1, np.int32)
    whole: NDArray[np.int32] = np.frombuffer(memoryview(buffer), np.int32)
    return whole[array.offset : array.offset + len(array) + 1]


def lengths_of(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Return the byte length of every row in an array without nulls, as int32 of shape (n,)."""
    offsets = offsets_of(array)
    return offsets[1:] - offsets[:-1]


def nullable_lengths(array: pa.BinaryArray, null: int = -1) -> NDArray[np.int32]:
    """Return the byte length of every row, or `null` (by default -1, as in Kafka), shape (n,)."""
    lengths = lengths_of(array)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = null
    return lengths


def read_bytes(column: pa.Array[Any]) -> pa.BinaryArray:
    """Convert a string or binary column (plain, large or dictionary-encoded) to binary."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return _narrowed(column)
    return cast("pa.BinaryArray", column.cast(pa.binary()))


def _narrowed(column: pa.Array[Any]) -> pa.BinaryArray:
    """Convert a large column to 32-bit offsets, relative to the start of the slice.

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


class VarintBytes(NamedTuple):
    """Up to eight bytes per row. Both arrays have shape (n,), or (1,) if all rows are equal.

    In `bytes`, the first byte is the least significant, and bytes beyond `size` are 0. No size
    exceeds `largest`.
    """

    bytes: NDArray[np.uint64]
    size: NDArray[np.uint64]
    largest: int


@lru_cache(maxsize=1024)
def constant_bytes(value: bytes) -> VarintBytes:
    """Return the same bytes, at most eight, for every row.

    The cache is useful for a few recurring values. Chunks with a single row have new values each
    time.
    """
    number = np.array([int.from_bytes(value, "little")], np.uint64)
    return VarintBytes(number, np.array([len(value)], np.uint64), len(value))


class InlineView:
    """A column of short values, at most `INLINE_SIZE` bytes each. Sizes can differ between rows."""

    __slots__ = ("_high", "_low", "largest", "size")

    size: NDArray[np.uint64]
    """Size of each row in bytes, shape (n,), or (1,) if it is the same for all rows."""
    largest: int
    """Maximum size of a row in bytes."""

    def __init__(self, first: VarintBytes) -> None:
        self._low, self.size, self.largest = first
        self._high = _ZERO

    def fits(self, varints: VarintBytes | InlineView) -> bool:
        """Return True if these bytes fit into every row."""
        return self.largest + varints.largest <= INLINE_SIZE

    def append(self, varints: VarintBytes) -> None:
        """Append these bytes to every row.

        Shifts by 64 or more result in 0, as do negative shifts, because they wrap around.
        """
        bits = self.size << _BYTE_BITS
        self._low = self._low | (varints.bytes << bits)
        self.largest += varints.largest
        if self.largest > REGISTER_SIZE:
            beyond = (varints.bytes >> (_WHOLE - bits)) | (varints.bytes << (bits - _WHOLE))
            self._high = self._high | beyond
        self.size = self.size + varints.size

    def where(self, mask: NDArray[np.bool_]) -> InlineView:
        """Return the bytes of the rows where the mask is True; all other rows are empty."""
        keep = mask.astype(np.uint64)
        kept = InlineView(VarintBytes(self._low * keep, self.size * keep, self.largest))
        kept._high = self._high * keep
        return kept

    def register(self) -> VarintBytes | None:
        """Return the bytes, or None if a row can exceed the size of a register."""
        if self.largest > REGISTER_SIZE:
            return None
        return VarintBytes(self._low, self.size, self.largest)

    def write(self, views: NDArray[np.uint64]) -> None:
        """Write the binary view of each row to `views`, shape (n, 2)."""
        np.bitwise_or(self._low << _HALF, self.size, out=views[:, 0])
        np.bitwise_or(self._low >> _HALF, self._high << _HALF, out=views[:, 1])
