"""The demo's Spark: local, on the loopback, and silent."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def quiet_spark(name: str, log: Path) -> Iterator[SparkSession]:
    """A session on all cores; its JVM and its Python workers write to `log`, not to stderr."""
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
    """Let processes that start meanwhile inherit the file as their stderr."""
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
    """The saved flights as `key` and `value`; those of one key in one task, in their order."""
    from pyspark.sql import functions as sf

    from spark_kafka_sink.demo.flights import KEY, LINE

    flights = spark.read.parquet(str(path))
    fields = [name for name in flights.columns if name != LINE]
    return (
        flights.repartition(tasks, KEY)
        .sortWithinPartitions(LINE)
        .select(
            sf.col(KEY).alias("key"),
            sf.to_json(sf.struct(*fields), {"ignoreNullFields": "false"}).alias("value"),
        )
    )


def write_records(records: DataFrame, kafka: Mapping[str, str], topic: str, report: Path) -> None:
    """Write with kafkaprod; raises Spark's exception when a task fails.

    `kafka` has the `kafka.*` options, the brokers' addresses among them.
    """
    (
        records.write.format("kafkaprod")
        .options(**kafka)
        .option("topic", topic)
        .option("reportPath", str(report))
        .mode("append")
        .save()
    )
