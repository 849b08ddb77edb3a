"""Short byte strings of all rows, joined in 64-bit registers instead of byte by byte.

Arrow's binary view holds a value of up to twelve bytes inline, in two 64-bit numbers: size and
first four bytes, then the other eight. An `InlineView` builds such views for all rows at once with
shifts; the first byte is always the lowest one. Source: the Arrow columnar format's
"Variable-size Binary View Layout".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

INLINE_SIZE = 12
"""Bytes that a binary view holds inline."""
REGISTER_SIZE = 8
"""Bytes that are appended at once."""

_BYTE_BITS = np.uint64(3)
"""Shifts a number of bytes to one of bits."""
_HALF = np.uint64(32)
_WHOLE = np.uint64(64)


class VarintBytes(NamedTuple):
    """Up to eight bytes of every row; both arrays of shape (n,), or (1,) if all rows have the same.

    `bytes` has the first byte lowest, and zeros behind its `size`, which is at most `largest`.
    """

    bytes: NDArray[np.uint64]
    size: NDArray[np.uint64]
    largest: int


@lru_cache(maxsize=1024)
def constant_bytes(value: bytes) -> VarintBytes:
    """The same bytes in every row, eight at most.

    Kept for the few values that come again; chunks of one row have others each time.
    """
    number = np.array([int.from_bytes(value, "little")], np.uint64)
    return VarintBytes(number, np.array([len(value)], np.uint64), len(value))


class InlineView:
    """Up to `INLINE_SIZE` bytes of every row; the size may differ from row to row."""

    __slots__ = ("_high", "_largest", "_low", "_size")

    def __init__(self, first: VarintBytes) -> None:
        self._low, self._size, self._largest = first
        self._high = _NOTHING

    def fits(self, more: VarintBytes) -> bool:
        """Whether there is room for these bytes in every row."""
        return self._largest + more.largest <= INLINE_SIZE

    def append(self, more: VarintBytes) -> None:
        """Put these bytes behind what is there.

        Shifts by 64 and more give 0, and so do negative ones, which wrap around.
        """
        bits = self._size << _BYTE_BITS
        self._low = self._low | (more.bytes << bits)
        self._largest += more.largest
        if self._largest > REGISTER_SIZE:
            beyond = (more.bytes >> (_WHOLE - bits)) | (more.bytes << (bits - _WHOLE))
            self._high = self._high | beyond
        self._size = self._size + more.size

    def write(self, views: NDArray[np.uint64]) -> None:
        """Write the binary view of each row, shape (n, 2)."""
        np.bitwise_or(self._low << _HALF, self._size, out=views[:, 0])
        np.bitwise_or(self._low >> _HALF, self._high << _HALF, out=views[:, 1])


_NOTHING = np.zeros(1, np.uint64)
