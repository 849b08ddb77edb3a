"""`write` if the job is interrupted or fails."""

from __future__ import annotations

import os
import signal
import time
from threading import Timer
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import DeliveryReport, KafkaProdError, WriteStatus, last_report, write
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.exactly_once.operator import TransactionOperator
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.support.sink import Sink

_SLEEP = "substring(java_method('java.lang.Thread', 'sleep', 100L), 1, 0)"
_WAIT_S = 60


@pytest.fixture(params=["at-least-once", "exactly-once"])
def options(request: pytest.FixtureRequest, sink: Sink, topic: str) -> dict[str, str]:
    """Return the options of both guarantees."""
    guarantee = {"deliveryGuarantee": request.param}
    if request.param == "exactly-once":
        guarantee["transactionalIdPrefix"] = topic
    return {"kafka.bootstrap.servers": sink.bootstrap_servers, "topic": topic, **guarantee}


def _rows(spark: SparkSession, value: str, rows: int = 20) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(f"{value} AS value")


def _check_failure(options: dict[str, str], persisted: int) -> DeliveryReport:
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
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline and not tracker.getActiveStageIds():
            time.sleep(0.1)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    timer = Timer(0, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        write(_rows(spark, f"concat(id, {_SLEEP})", 2_000), options)
    timer.join()
    _check_failure(options, persisted=0)
    assert not tracker.getActiveStageIds()
    assert write(_rows(spark, "string(id)"), options).persisted == 20
    assert spark.range(7).count() == 7  # the connection to the JVM is in order


def test_failed_job_reports_its_finished_tasks(
    spark: SparkSession, options: dict[str, str]
) -> None:
    """The second task fails after the first one has finished."""
    slow = f"concat(id, {_SLEEP.replace('100L', '15000L')})"
    rows = _rows(spark, f"IF(id = 15, {slow}, string(id))").selectExpr(
        "value", "IF(value = '15', 99, 0) AS partition"
    )
    with pytest.raises(KafkaProdError, match="partition that does not exist"):
        write(rows, options)
    assert "99" in _check_failure(options, persisted=10).error


def test_error_of_another_function_is_raised_unchanged(
    spark: SparkSession, options: dict[str, str]
) -> None:
    with pytest.raises(Exception, match="not from Kafka") as caught:
        write(_rows(spark, "IF(id = 15, raise_error('not from Kafka'), string(id))"), options)
    assert not isinstance(caught.value, KafkaProdError)
    assert last_report().status is WriteStatus.FAILED
