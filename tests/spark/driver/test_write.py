"""`write` if the job is interrupted or fails, and its requests to the JVM."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_sink import DeliveryReport, KafkaProdError, WriteStatus, last_report, write
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from tests.spark.support.sink import Sink
from tests.support.waiting import wait_until
from tools.support.readers import by_confluent

MAX_REQUESTS = 70
"""Requests to the JVM of one write in a session that has written before, most of them PySpark's."""
FORGET_OBJECT = "m\n"
"""Start of a request that Python's garbage collection sends."""
SLEEP = "substring(java_method('java.lang.Thread', 'sleep', 100L), 1, 0)"


@pytest.fixture(params=["at-least-once", "exactly-once"])
def options(request: pytest.FixtureRequest, sink: Sink, topic: str) -> dict[str, str]:
    """Return the options of both guarantees."""
    guarantee = {"deliveryGuarantee": request.param}
    if request.param == "exactly-once":
        guarantee["transactionalIdPrefix"] = topic
    return {"kafka.bootstrap.servers": sink.bootstrap_servers, "topic": topic, **guarantee}


def rows_of(spark: SparkSession, value: str, rows: int = 20) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(f"{value} AS value")


def check_failure(options: dict[str, str], persisted: int) -> DeliveryReport:
    """Check the report, and that the failed write leaves neither rows nor open transactions."""
    report = last_report()
    assert (report.status, report.persisted) == (WriteStatus.FAILED, persisted)
    if options["deliveryGuarantee"] == "exactly-once":
        assert report.transaction_outcome == "aborted"
        overview = TransactionOperator(SinkConfig.parse(options)).overview()
        assert not overview.transactions
        assert by_confluent(options["kafka.bootstrap.servers"], options["topic"]) == []
    return report


def test_ctrl_c_cancels_the_job_and_aborts(spark: SparkSession, options: dict[str, str]) -> None:
    tracker = spark.sparkContext.statusTracker()

    def interrupt() -> None:
        """Interrupt the main thread as soon as a task is running."""
        wait_until(tracker.getActiveStageIds)
        time.sleep(1)  # The main thread waits for the job.
        os.kill(os.getpid(), signal.SIGINT)

    timer = Timer(0, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        write(rows_of(spark, f"concat(id, {SLEEP})", 2_000), options)
    timer.join()
    check_failure(options, persisted=0)
    assert not tracker.getActiveStageIds()
    assert write(rows_of(spark, "string(id)"), options).persisted == 20
    assert spark.range(7).count() == 7  # the connection to the JVM is in order


def test_failed_job_reports_its_finished_tasks(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """The second task fails after the first one has finished."""
    tracker, finished = spark.sparkContext.statusTracker(), tmp_path / "finished"

    def has_finished_task() -> bool:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(stage.numCompletedTasks for stage in stages if stage)

    def signal_finished_task() -> None:
        wait_until(has_finished_task)
        finished.touch()

    def wait_in_second_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if "15" in batch["value"].to_pylist():
                wait_until(finished.exists)
            yield batch

    rows = rows_of(spark, "string(id)").mapInArrow(wait_in_second_task, "value string")
    watcher = Timer(0, signal_finished_task)
    watcher.start()
    with pytest.raises(KafkaProdError, match="partition that does not exist"):
        write(rows.selectExpr("value", "IF(value = '15', 99, 0) AS partition"), options)
    watcher.join()
    assert "99" in check_failure(options, persisted=10).error


def test_error_of_another_function_is_raised_unchanged(
    spark: SparkSession, options: dict[str, str]
) -> None:
    with pytest.raises(Exception, match="not from Kafka") as caught:
        write(rows_of(spark, "IF(id = 15, raise_error('not from Kafka'), string(id))"), options)
    assert not isinstance(caught.value, KafkaProdError)
    assert last_report().status is WriteStatus.FAILED


def test_few_requests_to_the_jvm(
    spark: SparkSession, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request takes about 0.1 ms: reading all settings would take 20 ms of each micro-batch."""
    send, requests = JavaClient.send_command, []

    def count(client: JavaClient, command: str, *args: Any, **kwargs: Any) -> Any:
        requests.append(command)
        return send(client, command, *args, **kwargs)

    rows = rows_of(spark, "string(id)")
    write(rows, options)
    monkeypatch.setattr(JavaClient, "send_command", count)
    write(rows, options)
    assert 0 < sum(not text.startswith(FORGET_OBJECT) for text in requests) < MAX_REQUESTS
