"""Numbers as bytes that compress well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


UNKNOWN = int(np.iinfo(np.int64).min)
"""The number that represents None."""


def to_planes(rows: Numbers) -> bytes:
    """Return k rows of n numbers as bytes: for each row, eight planes of n bytes.

    The first plane contains the lowest byte of every number. Adjacent similar bytes compress well.
    """
    octets = rows.astype("<i8", copy=False).view(np.uint8).reshape(len(rows), -1, 8)
    return octets.transpose(0, 2, 1).tobytes()


def from_planes(data: bytes, rows: int) -> Numbers:
    """Return the k x n numbers from the result of `to_planes`; `rows` is k."""
    octets = np.frombuffer(data, np.uint8).reshape(rows, 8, -1)
    numbers = np.ascontiguousarray(octets.transpose(0, 2, 1)).view("<i8")[:, :, 0]
    return numbers.astype(np.int64, copy=False)


def zeros(*shape: int) -> Numbers:
    """Return zeros of this shape."""
    return np.zeros(shape, np.int64)
