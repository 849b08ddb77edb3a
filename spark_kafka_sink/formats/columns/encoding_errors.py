"""Rows that cannot be encoded, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class EncodingError(NamedTuple):
    """A row that does not fit the schema: its number in the batch, the field, and the problem."""

    row: int
    path: str
    problem: str


class EncodingErrors:
    """The errors in a batch of n rows. Only the first error of each row is recorded."""

    __slots__ = ("_causes", "_numbers")

    def __init__(self, rows: int) -> None:
        self._causes: list[tuple[str, str]] = []
        self._numbers = np.zeros(rows, np.int32)

    def __bool__(self) -> bool:
        return bool(self._causes)

    def __iter__(self) -> Iterator[EncodingError]:
        """Yield the error of each row that has one, in the order of rows."""
        for row in self.rows.tolist():
            yield self.of(row)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The numbers of the rows with errors, in ascending order."""
        return np.flatnonzero(self._numbers)

    def of(self, row: int) -> EncodingError:
        """Return the error of a row that has one."""
        return EncodingError(row, *self._causes[int(self._numbers[row]) - 1])

    def add(self, rows: NDArray[np.intp], path: str, problem: str) -> None:
        """Record a problem of these rows. In messages, `problem` follows "column `path`"."""
        new = rows[self._numbers[rows] == 0]
        if len(new):
            self._causes.append((path, problem))
            self._numbers[new] = len(self._causes)
