"""Arrow's binary arrays: lengths and offsets as numpy views, without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    offsets = offsets_of(array)
    return offsets[1:] - offsets[:-1]


def nullable_lengths(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Byte length of every row, -1 for null (as Kafka writes it), int32 of shape (n,)."""
    lengths = lengths_of(array)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = -1
    return lengths


def lengths_without_null(array: pa.BinaryArray) -> NDArray[np.int32]:
    """Byte length of every row, 0 for null, int32 of shape (n,)."""
    lengths = lengths_of(array)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = 0
    return lengths
