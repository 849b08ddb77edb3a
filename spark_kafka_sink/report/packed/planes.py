"""Integers as bytes that compress well: of each row first the lowest bytes, then the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


def to_planes(rows: Numbers) -> bytes:
    """The bytes of k rows of n numbers each, eight times k x n."""
    octets = rows.astype("<i8", copy=False).view(np.uint8).reshape(len(rows), -1, 8)
    return octets.transpose(0, 2, 1).tobytes()


def from_planes(data: bytes, rows: int) -> Numbers:
    """Back from what `to_planes` made of so many rows, k x n."""
    octets = np.frombuffer(data, np.uint8).reshape(rows, 8, -1)
    numbers = np.ascontiguousarray(octets.transpose(0, 2, 1)).view("<i8")[:, :, 0]
    return numbers.astype(np.int64, copy=False)
