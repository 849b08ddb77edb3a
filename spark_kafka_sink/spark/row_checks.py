"""What reading columns does with a row that can't be written: mark it, or raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.producer.row_errors import RowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class RowChecks:
    """The errors of n rows so far; a row keeps its first one.

    Args:
        rows: how many there are.
        tolerant: bad rows are marked; otherwise the first one raises.
        name: how errors call one of them.
    """

    def __init__(
        self, rows: int, tolerant: bool, name: Callable[[int], str] = "row {}".format
    ) -> None:
        self._tolerant = tolerant
        self._name = name
        self._errors = np.zeros(rows, np.int8)

    def found(self, rows: NDArray[np.intp], error: RowError, problem: str, hint: str) -> None:
        """These rows, in order, have an error; `problem` ends where the row's number comes.

        Raises:
            ColumnError: there is one, and it is not tolerated; the message names the row.
        """
        if not len(rows):
            return
        if not self._tolerant:
            raise ColumnError(f"{problem} {self._name(int(rows[0]))}", hint=hint)
        self._errors[rows[self._errors[rows] == RowError.NONE]] = error

    @property
    def errors(self) -> NDArray[np.int8] | None:
        """A `RowError` per row, shape (n,); None when there is none."""
        return self._errors if self._errors.any() else None
