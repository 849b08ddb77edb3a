"""The columns of a chunk of records, and binary arrays as NumPy views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A chunk of n records, in columns of length n."""

    value: pa.BinaryArray
    """Can contain nulls."""
    key: pa.BinaryArray | None = None
    """Can contain nulls; None if every key is null."""
    headers: pa.BinaryArray | None = None
    """The encoded header section of each row; None if no row has headers."""
    timestamps: NDArray[np.int64] | None = None
    """Milliseconds since 1970; None for the time of arrival."""

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
        return _with_int32_offsets(column)
    return cast("pa.BinaryArray", column.cast(pa.binary()))


def _with_int32_offsets(column: pa.Array[Any]) -> pa.BinaryArray:
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
    return add_nulls(array, np.asarray(column.is_valid())) if column.null_count else array


def add_nulls(column: pa.BinaryArray, mask: NDArray[np.bool_]) -> pa.BinaryArray:
    """Return the column with added nulls where the mask is False, without copying its bytes."""
    if column.null_count:
        mask = mask & np.asarray(column.is_valid())
    bits = pa.py_buffer(np.packbits(mask, bitorder="little").data)
    offsets = pa.py_buffer(np.ascontiguousarray(offsets_of(column)).data)
    buffers = [bits, offsets, column.buffers()[2] or pa.py_buffer(b"")]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), len(mask), [*buffers]))
