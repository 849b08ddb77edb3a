"""The entries of a decimal column as pairs of 64-bit numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.formats.columns.cells import Cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.formats.columns.cells import Mask


@dataclass(frozen=True, slots=True)
class DecimalCells:
    """Unscaled 128-bit decimals: lower and upper 64 bits, each of shape (n,), with 0 for null."""

    cells: Cells
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @classmethod
    def of(cls, cells: Cells) -> DecimalCells:
        """Return the decimals of a decimal128 column."""
        words = cells.raw_bytes(16).view(np.int64)
        low, high = words[:, 0], words[:, 1]
        valid = cells.valid_mask()
        if valid is not None:
            low, high = low * valid, high * valid
        return cls(cells, low, high)

    def fit_to(self, path: str, digits: int, scale: int) -> DecimalCells:
        """Return the decimals with `scale`, which is at least their current scale.

        Decimals with more than `digits` digits before the point are errors and become 0.
        """
        type_ = cast("pa.Decimal128Type[Any, Any]", self.cells.array.type)
        fitting = self
        if type_.precision - type_.scale > digits:
            bad = self._reach_limit(10 ** (digits + type_.scale))
            self.cells.fail(bad, path, f"has more than {digits} digits before the point")
            fitting = DecimalCells(self.cells, self.low * ~bad, self.high * ~bad)
        return fitting if type_.scale == scale else fitting._rescale(scale - type_.scale)

    def whole_decimals(self) -> Any:
        """Return the unscaled numbers as Arrow decimals without digits after the point."""
        words = np.ascontiguousarray(np.column_stack((self.low, self.high)))
        buffers = [None, pa.py_buffer(words.data)]
        return pa.Array.from_buffers(pa.decimal128(38, 0), len(words), buffers)

    def magnitudes(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return lower and upper bits of the absolute values, minus 1 for negative numbers."""
        sign = self.high >> 63
        return (self.low ^ sign).view(np.uint64), (self.high ^ sign).view(np.uint64)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of bytes that each value needs in two's complement."""
        low, high = self.magnitudes()
        sizes = np.ones(len(low), np.int64)
        for size in range(1, 9):
            sizes += (low >= np.uint64(1 << 8 * size - 1)) | (high > 0)
        if high.any():
            for size in range(9, 16):
                sizes += high >= np.uint64(1 << 8 * size - 65)
        return sizes

    def _reach_limit(self, limit: int) -> Mask:
        """Return a mask of the values whose absolute value is at least `limit`."""
        low, high = self.magnitudes()
        low_limit, high_limit = np.uint64(limit - 1 & (1 << 64) - 1), np.uint64(limit - 1 >> 64)
        bad: Mask = (high > high_limit) | ((high == high_limit) & (low > low_limit))
        # For a negative number, the magnitude is its absolute value minus one.
        bad |= (high == high_limit) & (low == low_limit) & (self.high < 0)
        return bad

    def _rescale(self, digits: int) -> DecimalCells:
        """Return the values multiplied by 10**digits. The results must fit into 128 bits."""
        wide = self.whole_decimals().cast(pa.decimal128(38, digits))
        cells = Cells(wide, self.cells.errors, self.cells.rows)
        rescaled = DecimalCells.of(cells)
        return DecimalCells(self.cells, rescaled.low, rescaled.high)
