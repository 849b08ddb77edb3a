"""The rows of one chunk as Arrow columns, the way the encoder and the planner want them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """One chunk of n records, every column of length n.

    `value` and `key` are binary (nulls allowed; `key` None means that every key is null),
    `headers` holds each row's encoded header section (None: no row has headers),
    `timestamps` is int64 milliseconds (None: all have the time when they came).
    """

    value: pa.BinaryArray
    key: pa.BinaryArray | None = None
    headers: pa.BinaryArray | None = None
    timestamps: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.value)

    def slice(self, start: int, stop: int) -> Columns:
        """Rows start..stop as views."""
        count = stop - start
        return Columns(
            value=self.value.slice(start, count),
            key=None if self.key is None else self.key.slice(start, count),
            headers=None if self.headers is None else self.headers.slice(start, count),
            timestamps=None if self.timestamps is None else self.timestamps[start:stop],
        )

    def take(self, numbers: NDArray[np.intp]) -> Columns:
        """The rows with these numbers, copied."""
        return Columns(
            value=self.value.take(numbers),
            key=None if self.key is None else self.key.take(numbers),
            headers=None if self.headers is None else self.headers.take(numbers),
            timestamps=None if self.timestamps is None else self.timestamps[numbers],
        )
