"""Faults of rows that do not fit a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class RowFault(NamedTuple):
    """A row that does not fit the schema: its number in the batch, the field, and the problem."""

    row: int
    path: str
    problem: str


class RowFaults:
    """The faults in a batch of n rows. Only the first fault of each row is recorded."""

    __slots__ = ("_causes", "_numbers")

    def __init__(self, rows: int) -> None:
        self._causes: list[tuple[str, str]] = []
        self._numbers = np.zeros(rows, np.int32)

    def __bool__(self) -> bool:
        return bool(self._causes)

    def __iter__(self) -> Iterator[RowFault]:
        """Yield the first fault of each faulty row, in the order of rows."""
        for row in self.rows.tolist():
            yield self.of(row)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The numbers of the faulty rows, in ascending order."""
        return np.flatnonzero(self._numbers)

    def of(self, row: int) -> RowFault:
        """Return the fault of a faulty row."""
        return RowFault(row, *self._causes[int(self._numbers[row]) - 1])

    def add(self, rows: NDArray[np.intp], path: str, problem: str) -> None:
        """Record a problem of these rows. In messages, `problem` follows "column `path`"."""
        new = rows[self._numbers[rows] == 0]
        if len(new):
            self._causes.append((path, problem))
            self._numbers[new] = len(self._causes)
