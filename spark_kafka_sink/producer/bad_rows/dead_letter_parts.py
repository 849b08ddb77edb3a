"""The parts of a row that a dead letter omits because it would be too large.

Parts are bit flags, so that one array describes the parts of all rows.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Parts = NDArray[np.int8]
    """Some `RowPart`s of each of n rows."""


class RowPart(IntFlag):
    """The parts of a row that a dead letter may omit."""

    NONE = 0
    VALUE = 1
    KEY = 2
    HEADERS = 4


ALL_PARTS = int(RowPart.VALUE | RowPart.KEY | RowPart.HEADERS)
_WORDS = {RowPart.VALUE: "value", RowPart.KEY: "key", RowPart.HEADERS: "headers"}


def omit_more(
    omitted: Parts,
    too_large: NDArray[np.bool_],
    keys: NDArray[np.int32],
    headers: NDArray[np.int32],
) -> Parts:
    """Return the omitted parts of n letters after each oversized letter omits one more part.

    Args:
        omitted: the `RowPart`s omitted so far.
        too_large: the letters to shrink; those that already omit everything do not change.
        keys: bytes of each row's key.
        headers: bytes of each row's original headers.
    """
    larger = np.where(keys >= headers, RowPart.KEY, RowPart.HEADERS)
    value_out = (omitted & RowPart.VALUE) != 0
    rest_out = np.where(omitted == RowPart.VALUE, larger, RowPart.KEY | RowPart.HEADERS)
    step = np.where(value_out, rest_out, RowPart.VALUE)
    return np.where(too_large, omitted | step, omitted).astype(np.int8)


def omission_note(parts: RowPart) -> str:
    """Return the end of the error message, which mentions the omitted parts."""
    names = [word for part, word in _WORDS.items() if part & parts]
    if not names:
        return ""
    *firsts, last = names
    verb = "are" if firsts or parts & RowPart.HEADERS else "is"
    listed = f"{', '.join(firsts)} and {last}" if firsts else last
    return f"; its {listed} {verb} left out"


def add_omission(message: str, part: RowPart) -> bytes:
    """Return the error message, which mentions one more omitted part."""
    omissions = map(RowPart, range(ALL_PARTS, 0, -1))
    omitted = next(
        (omission for omission in omissions if message.endswith(omission_note(omission))),
        RowPart.NONE,
    )
    return (message.removesuffix(omission_note(omitted)) + omission_note(omitted | part)).encode()
