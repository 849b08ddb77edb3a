"""A cluster of many embedded brokers, as a check of what the estimates say of connections."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.diagnostics.examination import Intent
from spark_kafka_sink.diagnostics.finding import Severity
from spark_kafka_sink.diagnostics.preflight import examine
from tools.scale.messages import TOPIC
from tools.scale.session import SessionCost
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKERS = 50
PARTITIONS = 1_000
_JOB = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
servers, topic, rows, tasks, cores, report = sys.argv[1:]
builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
key = sf.concat(sf.lit("s"), sf.col("id").cast("string"))
frame = spark.range(0, int(rows), 1, int(tasks)).select(key.alias("key"), key.alias("value"))
write = frame.write.format("kafkaprod").option("kafka.bootstrap.servers", servers)
write.option("topic", topic).option("reportPath", report).mode("append").save()
spark.stop()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """What a Spark job did: tasks in so many workers."""

    tasks: int
    workers: int
    persisted: int
    partitions: int
    connections: int


@contextmanager
def many_brokers(brokers: int = BROKERS, partitions: int = PARTITIONS) -> Iterator[EmbeddedBroker]:
    """The cluster, with a topic whose leaders are spread over all of it."""
    topics = {TOPIC: partitions}
    with EmbeddedBroker(nodes=brokers, topics=topics, replication_factor=1) as cluster:
        yield cluster


def values(cluster: EmbeddedBroker) -> list[bytes | None]:
    """Of all records that are there."""
    return [record.value for record in cluster.records(TOPIC)]


def session_in_a_process(bootstrap_servers: str, rows: int) -> SessionCost:
    """`tools.scale.session.write`, where nothing else takes memory."""
    command = [sys.executable, "-m", "tools.scale.session", bootstrap_servers, str(rows)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return SessionCost(**json.loads(done.stdout))


def preflight_seconds(bootstrap_servers: str) -> float:
    """Time of the driver's checks before a write."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": TOPIC}
    started = time.perf_counter()
    found = examine(Intent(config=SinkConfig.parse(options)))
    seconds = time.perf_counter() - started
    assert not any(each.severity is Severity.ERROR for each in found)
    return seconds


def spark_job(bootstrap_servers: str, rows: int, tasks: int, workers: int) -> JobCost:
    """A job of so many tasks, `workers` of them at a time."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        job = (bootstrap_servers, TOPIC, str(rows), str(tasks), str(workers), str(path))
        command = [sys.executable, "-c", _JOB, *job]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        report = DeliveryReport.read(path)
    return JobCost(
        tasks=report.tasks,
        workers=workers,
        persisted=report.persisted,
        partitions=len(report.partitions),
        connections=sum(each.connects for each in report.metrics.brokers),
    )
