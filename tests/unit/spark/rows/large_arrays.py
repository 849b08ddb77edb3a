"""Large arrays that use no memory until written."""

import mmap
from typing import cast

import numpy as np
import pyarrow as pa


def huge(rows: int, row_bytes: int) -> pa.LargeBinaryArray:
    """Return rows of zeros, each of this length, that use no memory until written."""
    zeros = mmap.mmap(-1, rows * row_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    offsets = np.arange(rows + 1, dtype=np.int64) * row_bytes
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(zeros)]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), rows, buffers)
    return cast("pa.LargeBinaryArray", array)
