"""What a dead letter leaves out of its row so that it fits: first the value, then key or headers.

Pure; a row's parts are bits, so that a column of them is one array.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Part(IntFlag):
    """The parts of a row that may be left out."""

    NONE = 0
    VALUE = 1
    KEY = 2
    HEADERS = 4


ALL_PARTS = int(Part.VALUE | Part.KEY | Part.HEADERS)
_WORDS = {Part.VALUE: "value", Part.KEY: "key", Part.HEADERS: "headers"}


def omitting_more(
    left_out: NDArray[np.int8],
    too_large: NDArray[np.bool_],
    keys: NDArray[np.int32],
    headers: NDArray[np.int32],
) -> NDArray[np.int8]:
    """The parts that n letters leave out when those that are too large leave out one more.

    Args:
        left_out: the `Part`s that they leave out so far.
        too_large: which of them must shrink; one that leaves out everything stays as it is.
        keys: bytes of each row's key.
        headers: bytes of each row's own headers.
    """
    larger = np.where(keys >= headers, Part.KEY, Part.HEADERS)
    value_out = (left_out & Part.VALUE) != 0
    rest_out = np.where(left_out == Part.VALUE, larger, Part.KEY | Part.HEADERS)
    step = np.where(value_out, rest_out, Part.VALUE)
    return np.where(too_large, left_out | step, left_out).astype(np.int8)


def omitted_words(parts: Part) -> str:
    """The end of the sentence that says what is wrong with the row."""
    names = [word for part, word in _WORDS.items() if part & parts]
    if not names:
        return ""
    *firsts, last = names
    verb = "are" if firsts or parts & Part.HEADERS else "is"
    listed = f"{', '.join(firsts)} and {last}" if firsts else last
    return f"; its {listed} {verb} left out"


ENDINGS = {omitted_words(Part(parts)): Part(parts) for parts in range(1, ALL_PARTS + 1)}
"""The parts that each ending of a sentence tells of."""
