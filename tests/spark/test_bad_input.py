"""Invalid input fails with a descriptive error, and no record is reported as persisted."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.support.console import Console
from tests.spark.support.sink import BOTH_WAYS, SHORT, Sink
from tests.support.servers import closed_port
from tests.support.waiting import wait_until
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import count

UNREACHABLE = {"kafka.max.block.ms": "1500"}


def frame_of(sink: Sink) -> DataFrame:
    return sink.frame("value string", ("a",))


@BOTH_WAYS
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kafka.acks", "2", "option kafka.acks is '2'"),
        ("useTimestampColumn", "true", "no column `timestamp`"),
    ],
)
def test_invalid_option_fails_before_any_task(
    name: str, value: str, message: str, sink: Sink, topic: str
) -> None:
    error, jobs = sink.jobs_of(lambda: sink.write(frame_of(sink), **{"topic": topic, name: value}))
    assert error is not None, "the write was accepted"
    assert message in str(error)
    assert jobs == 0
    assert count(sink.bootstrap_servers, topic) == 0


def test_missing_servers_fail_before_any_task(sink: Sink, topic: str) -> None:
    error, jobs = sink.jobs_of(lambda: sink.append(frame_of(sink), {"topic": topic}))
    assert "option kafka.bootstrap.servers is required" in str(error)
    assert jobs == 0


def test_unreachable_servers_fail_the_write(sink: Sink, console: Console) -> None:
    closed = closed_port()
    lost = replace(sink, bootstrap_servers=f"{closed},no-such-host.invalid:9092")
    mark = console.mark()
    error, _ = sink.jobs_of(lambda: lost.write(frame_of(sink), topic="any", **UNREACHABLE))
    text = str(error)
    assert "no broker responded within max.block.ms = 1500" in text
    assert f"{closed}: Connection refused" in text
    printed = console.wait_for("preflight: none of 2 bootstrap servers can be used", mark)
    assert "preflight=fail" in printed
    assert "no-such-host.invalid:9092: " in text


def test_no_rows_require_no_server(sink: Sink) -> None:
    lost = replace(sink, bootstrap_servers=closed_port())
    lost.write(sink.frame("value string"), topic="any", **UNREACHABLE)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Set Arrow batches to ten rows."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "10")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("small_batches")
def test_broker_stops_during_a_write(sink: Sink, unique_topic: str) -> None:
    slow = (
        sink.spark.range(0, 1_000, 1, 1)
        .selectExpr("id", "java_method('java.lang.Thread', 'sleep', 10L) AS slept")
        # Large values, because Spark passes rows to Python when its buffer is full.
        .selectExpr("concat(id, coalesce(slept, ''), repeat('x', 10000)) AS value")
    )
    with KafkaCluster() as kafka:
        kafka.admin.create_topic(unique_topic, 2)
        doomed = replace(sink, bootstrap_servers=kafka.bootstrap_servers)
        error, _ = sink.jobs_of(lambda: write_and_kill(doomed, slow, kafka, unique_topic))
    text = str(error)
    assert "records were not acknowledged within delivery.timeout.ms = 3000" in text
    assert f"{kafka.bootstrap_servers}: " in text
    # Records after the stop have no partition, because no partition has a leader.
    assert re.search(rf"^  {unique_topic}(-[01])?: (not|possibly) persisted \d", text, re.MULTILINE)


def write_and_kill(sink: Sink, frame: DataFrame, kafka: KafkaCluster, topic: str) -> None:
    """Write, and kill the broker after the first records."""
    stopped = threading.Event()

    def kill() -> None:
        wait_until(lambda: stopped.is_set() or count(kafka.bootstrap_servers, topic))
        kafka.node(1).kill()

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        try:
            sink.write(frame, topic=topic, **{"kafka.linger.ms": "5", **SHORT})
        finally:
            stopped.set()
            killing.result(60)
