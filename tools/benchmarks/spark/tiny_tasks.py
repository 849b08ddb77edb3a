"""Measure the gain from reusing sessions: `python -m tools.benchmarks.spark.tiny_tasks`.

A Spark job with many tiny tasks writes to a real Kafka, alternately with the unchanged sink and
with the same sink using one session per task. Producer states are counted on the broker with
DescribeProducers, and connections with the delivery report.
"""

import argparse
import tempfile
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_kafka_sink import DeliveryReport, KafkaProdDataSource
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.spark.commit_messages import DeliveryMessage
from spark_kafka_sink.spark.writer import KafkaProdWriter
from tools.benchmarks.kafka import PARTITIONS, MeasuredKafka, new_topics
from tools.benchmarks.results import describe
from tools.benchmarks.spark.contestants import WarmSpark
from tools.benchmarks.tables import Table
from tools.support.raw_client import RawClient

ROWS_PER_TASK = 20
_CORES = 2
_ROUNDS = 3
_WARM_UP = 50
"""Number of tasks of the warm-up."""
_PER_TASK = "tools.benchmarks.spark.tiny_tasks:SessionPerTaskDataSource"


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


class Run(NamedTuple):
    """One job: its duration, connections opened, and producer states left on the broker."""

    seconds: float
    connections: float
    producer_states: float


def main() -> None:
    """Run both variants in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    tasks = parser.parse_args().tasks
    runs: dict[str, list[Run]] = {"kafkaprod": [], _PER_TASK: []}
    with MeasuredKafka() as kafka, WarmSpark(cores=_CORES) as spark:
        for number in range(_ROUNDS + 1):
            for name, found in runs.items():
                run = _job(spark, kafka.bootstrap_servers, name, tasks if number else _WARM_UP)
                if number:
                    found.append(run)
    title = f"{tasks:,} tasks of {ROWS_PER_TASK} rows, {_CORES} at once; medians"
    columns = ("writer", "seconds", "ms per task", "connections", "producer states")
    rows = []
    for name, found in runs.items():
        seconds, *counts = map(median, zip(*found, strict=True))
        ms = f"{seconds / tasks * 1_000:.1f}"
        writer = "one session per task" if name == _PER_TASK else name
        rows.append((writer, f"{seconds:.2f}", ms, *(f"{count:,.0f}" for count in counts)))
    print(describe(), Table(title, columns, rows).markdown(), sep="\n\n")


def _job(spark: WarmSpark, bootstrap_servers: str, writer: str, tasks: int) -> Run:
    rows = tasks * ROWS_PER_TASK
    columns = ("string(id) value", "string(id) key")
    with new_topics(bootstrap_servers, rows) as (topic,), tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/report.json"
        options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic, "reportPath": path}
        sample = spark.write(writer, options, rows, select=columns, tasks=tasks)
        connections = sum(each.connects for each in DeliveryReport.read(path).metrics.brokers)
        return Run(sample.seconds, connections, _producer_states(bootstrap_servers, topic))


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


if __name__ == "__main__":
    main()
