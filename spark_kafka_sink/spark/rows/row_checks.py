"""The errors of the rows in an Arrow batch. Whole columns are checked at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.producer.bad_rows.row_error import RowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class RowChecks:
    """The errors of n rows. Only the first error of each row is recorded.

    Args:
        rows: number of rows.
        tolerant: True to mark bad rows, False to raise for the first bad row.
        name: function that returns a row's description for error messages.
    """

    def __init__(
        self, rows: int, tolerant: bool, name: Callable[[int], str] = "row {}".format
    ) -> None:
        self._tolerant = tolerant
        self._name = name
        self._errors = np.zeros(rows, np.int8)

    def reject(self, rows: NDArray[np.intp], error: RowError, problem: str, hint: str) -> None:
        """Record an error of these rows, which are in ascending order.

        Raises:
            ColumnError: errors are not tolerated; the message is `problem` followed by the first
                row.
        """
        if not len(rows):
            return
        if not self._tolerant:
            raise ColumnError(f"{problem} {self._name(int(rows[0]))}", hint=hint)
        self._errors[rows[self._errors[rows] == RowError.NONE]] = error

    @property
    def errors(self) -> NDArray[np.int8] | None:
        """A `RowError` per row, shape (n,), or None if no row has an error."""
        return self._errors if self._errors.any() else None
