"""Measure the gain from reusing sessions: `python -m tools.benchmarks.spark.tiny_tasks`.

A Spark job with many tiny tasks writes to a real Kafka, alternately with the unchanged sink and
with the same sink using one session per task. Producer states are counted on the broker with
DescribeProducers, and connections with the delivery report.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from unittest.mock import patch

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from spark_kafka_sink import DeliveryReport, KafkaProdDataSource
from spark_kafka_sink.protocol.versions import ApiKey
from spark_kafka_sink.report.storage import read_report
from spark_kafka_sink.spark.writer import KafkaProdWriter
from tools.benchmarks.results import describe, one_line
from tools.benchmarks.topics import PARTITIONS, fresh_topic, measured_kafka
from tools.support.jars import ROOT
from tools.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_kafka_sink.spark.commit_messages import DeliveryMessage

ROWS_PER_TASK = 20
_CORES = 2


class SessionPerTaskDataSource(KafkaProdDataSource):
    """This sink without session reuse: each task creates and closes its own session."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "kafkaprod-session-per-task"

    def writer(self, schema: StructType, overwrite: bool) -> KafkaProdWriter:
        """Return the usual writer, but its tasks close their session instead of reusing it."""
        writer = super().writer(schema, overwrite)
        assert isinstance(writer, KafkaProdWriter)
        run = writer.task.run

        def write(iterator: Iterator[pa.RecordBatch]) -> DeliveryMessage:
            from spark_kafka_sink.producer import session as pool

            with patch.object(pool, "give_back_session", pool.discard_session):
                return run(iterator)

        writer.write = write  # type: ignore[method-assign]
        return writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One job: its duration, connections opened, and producer states left on the broker."""

    seconds: float
    connections: int
    producer_states: int


def main() -> None:
    """Run both variants in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    spark = _session()
    spark.dataSource.register(SessionPerTaskDataSource)
    names = ("kafkaprod", SessionPerTaskDataSource.name())
    runs: dict[str, list[Run]] = {name: [] for name in names}
    with measured_kafka() as kafka:
        for name in names:
            _job(spark, kafka.bootstrap_servers, name, 50)
        for _ in range(options.rounds):
            for name in names:
                runs[name].append(_job(spark, kafka.bootstrap_servers, name, options.tasks))
    spark.stop()
    _print(runs, options.tasks)


def _session() -> SparkSession:
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{_CORES}]").appName("tiny tasks")
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    for key, value in {**settings, "spark.driver.bindAddress": "127.0.0.1"}.items():
        builder = builder.config(key, value)
    return builder.config("spark.driver.host", "127.0.0.1").getOrCreate()


def _job(spark: SparkSession, bootstrap_servers: str, name: str, tasks: int) -> Run:
    rows = tasks * ROWS_PER_TASK
    frame = spark.range(0, rows, 1, tasks).selectExpr("cast(id as string) value", "value as key")
    with fresh_topic(bootstrap_servers, rows) as topic, tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "report.json")
        started = time.perf_counter()
        (
            frame.write.format(name)
            .mode("append")
            .option("kafka.bootstrap.servers", bootstrap_servers)
            .option("topic", topic)
            .option("reportPath", path)
            .save()
        )
        seconds = time.perf_counter() - started
        report = DeliveryReport.from_json(read_report(path))
        return Run(
            seconds=seconds,
            connections=sum(broker.connects for broker in report.metrics.brokers),
            producer_states=_producer_states(bootstrap_servers, topic),
        )


def _producer_states(bootstrap_servers: str, topic: str) -> int:
    """Return the number of producer IDs that the broker stores for all partitions of the topic."""
    wanted = [{"name": topic, "partition_indexes": list(range(PARTITIONS))}]
    with RawClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=wanted)
    return sum(
        len(partition.active_producers)
        for described in answer.topics
        for partition in described.partitions
    )


def _print(runs: dict[str, list[Run]], tasks: int) -> None:
    table = Table("writer", "seconds", "ms a task", "connections", "producer states")
    for name, each in runs.items():
        seconds = median(run.seconds for run in each)
        table.add_row(
            name,
            f"{seconds:.2f}",
            f"{seconds / tasks * 1_000:.1f}",
            f"{median(run.connections for run in each):,.0f}",
            f"{median(run.producer_states for run in each):,.0f}",
        )
    console = Console(width=120)
    console.print(one_line(describe()))
    console.print(f"{tasks:,} tasks of {ROWS_PER_TASK} rows, {_CORES} at once; medians", table)


if __name__ == "__main__":
    main()
