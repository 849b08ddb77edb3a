"""Short pieces of rows, at most twelve bytes each, put together in registers.

Arrow's binary view holds a value of up to twelve bytes within itself, in two 64-bit numbers: size
and first four bytes, then the other eight. An `InlineView` builds such views for all rows at once
with shifts; the first byte is always the lowest one. Source: the Arrow columnar format's
"Variable-size Binary View Layout".
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD_SIZE = 12
"""Bytes that a view holds within itself."""
CODE_SIZE = 8
"""Bytes that are added at once."""

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


@cache
def constant_code(value: bytes) -> VarintBytes:
    """The same bytes in every row, eight at most; for values of which there are few."""
    number = np.array([int.from_bytes(value, "little")], np.uint64)
    return VarintBytes(number, np.array([len(value)], np.uint64), len(value))


class InlineView:
    """Codes one behind the other, up to `WORD_SIZE` bytes; its size may differ from row to row."""

    __slots__ = ("_high", "_largest", "_low", "_size")

    def __init__(self, first: VarintBytes) -> None:
        self._low, self._size, self._largest = first
        self._high = _NOTHING

    def fits(self, code: VarintBytes) -> bool:
        """Whether there is room for the code in every row."""
        return self._largest + code.largest <= WORD_SIZE

    def add(self, code: VarintBytes) -> None:
        """Put the code behind what is there.

        Shifts by 64 and more give 0, and so do negative ones, which wrap around.
        """
        bits = self._size << _BYTE_BITS
        self._low = self._low | (code.bytes << bits)
        self._largest += code.largest
        if self._largest > CODE_SIZE:
            beyond = (code.bytes >> (_WHOLE - bits)) | (code.bytes << (bits - _WHOLE))
            self._high = self._high | beyond
        self._size = self._size + code.size

    def write(self, views: NDArray[np.uint64]) -> None:
        """Write the view of each row, shape (n, 2)."""
        np.bitwise_or(self._low << _HALF, self._size, out=views[:, 0])
        np.bitwise_or(self._low >> _HALF, self._high << _HALF, out=views[:, 1])


_NOTHING = np.zeros(1, np.uint64)
