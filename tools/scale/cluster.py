"""Check the estimated connections on a cluster of many embedded brokers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
from spark_kafka_sink.diagnostics.examination import Intent
from spark_kafka_sink.diagnostics.finding import Severity
from spark_kafka_sink.diagnostics.preflight import examine
from spark_kafka_sink.producer.error_tolerance import Rows
from spark_kafka_sink.producer.session import borrow_session, discard_session
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.report.task_report import TaskInfo
from tools.scale.measure import TOPIC
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCost:
    """Results and costs of a task's session."""

    persisted: int
    partitions: int
    connections: int
    """Connections that it opened, including the one to a bootstrap server."""
    most_connections: int
    """Connections to one broker by its ID; the one to a bootstrap server is separate."""
    requests: int
    cpu_seconds: float
    memory: int
    """Memory growth of the process in bytes, with the session still open."""


def write(bootstrap_servers: str, rows: int) -> SessionCost:
    """Write `count` keyed rows into `TOPIC`."""
    names = [b"%d" % number for number in range(rows)]
    column = pa.array(names, pa.binary())
    before, started = _memory(), time.process_time()
    config = ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers})
    session = borrow_session(config)
    try:
        session.append(Rows(columns=Columns(value=column, key=column), topics=(TOPIC,)))
        session.flush()
        report, memory = session.report(TaskInfo()), _memory() - before
    finally:
        discard_session(session)
    brokers = report.metrics.brokers
    connects = Counter({each.node_id: each.connects for each in brokers})
    return SessionCost(
        persisted=report.persisted,
        partitions=len(report.partitions),
        connections=connects.total(),
        most_connections=max(connects.values()),
        requests=sum(each.tx for each in brokers),
        cpu_seconds=time.process_time() - started,
        memory=memory,
    )


def _memory() -> int:
    return int(psutil.Process().memory_info().rss)


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
    """Costs of a Spark job: its tasks and workers."""

    tasks: int
    workers: int
    persisted: int
    partitions: int
    connections: int


@contextmanager
def many_brokers(brokers: int = BROKERS, partitions: int = PARTITIONS) -> Iterator[EmbeddedBroker]:
    """Start the cluster with a topic whose leaders are distributed over all brokers."""
    topics = {TOPIC: partitions}
    with EmbeddedBroker(nodes=brokers, topics=topics, replication_factor=1) as cluster:
        yield cluster


def values(cluster: EmbeddedBroker) -> list[bytes | None]:
    """Return the values of all records."""
    return [record.value for record in cluster.records(TOPIC)]


def session_in_a_process(bootstrap_servers: str, rows: int) -> SessionCost:
    """Run `write` in a process of its own, so that only its memory is measured."""
    command = [sys.executable, "-m", "tools.scale.cluster", bootstrap_servers, str(rows)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return SessionCost(**json.loads(done.stdout))


def preflight_seconds(bootstrap_servers: str) -> float:
    """Return the seconds of the driver's checks before a write."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": TOPIC}
    started = time.perf_counter()
    found = examine(Intent(config=SinkConfig.parse(options)))
    seconds = time.perf_counter() - started
    assert not any(each.severity is Severity.ERROR for each in found)
    return seconds


def spark_job(bootstrap_servers: str, rows: int, tasks: int, workers: int) -> JobCost:
    """Run a job of `tasks` tasks, `workers` of them at a time."""
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


if __name__ == "__main__":
    print(json.dumps(asdict(write(sys.argv[1], int(sys.argv[2])))))
