"""`warm_up` starts workers without a write and does not affect the session."""

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from spark_kafka_sink import ConfigError, EmbeddedBroker, last_report, warm_up, write
from spark_kafka_sink.spark import warm_up as module
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from tests.spark.support.append import append
from tests.spark.support.python_workers import daemons

FORMAT_KINDS = {
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
}
KINDS = {"pyspark.worker"} | (FORMAT_KINDS if HAS_DATA_SOURCES else set())
STOPPED_SESSION = """
import sys, time
from pyspark.sql import SparkSession
from spark_kafka_sink import ConfigError, warm_up

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
thread = warm_up(spark)
time.sleep(float(sys.argv[1]))
spark.stop()
thread.join(60)
assert not thread.is_alive()
try:
    warm_up(spark)
except ConfigError as error:
    print(error)
"""


CONNECT = """
from spark_kafka_sink import ConfigError, warm_up
from tests.spark.support.python_workers import workers
from tools.support.spark_session import connect

spark = connect()
thread = warm_up(spark)
assert warm_up(spark) is thread
thread.join(120)
print(sorted(workers()))
again = warm_up(spark)
assert again is not thread
spark.stop()
again.join(60)
assert not again.is_alive()
try:
    warm_up(spark)
except ConfigError as error:
    print(error)
"""


def test_starts_every_kind_of_worker(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", module.__name__)
    thread = warm_up(spark)
    assert warm_up(spark) is thread
    thread.join(120)
    assert not thread.is_alive()
    before = daemons()
    assert before.keys() >= KINDS
    again = warm_up(spark)
    again.join(120)
    assert again is not thread
    assert not caplog.records
    with EmbeddedBroker(topics={"events": 1}) as kafka:
        row = spark.sql("SELECT 'a' AS value")
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "events"}
        assert write(row, options).startup_ms == 0
        append(row, options)
        assert kafka.end_offsets("events") == [2]
        assert last_report().startup_ms == 0
    assert daemons() == before, "a write did not use the workers of the warm-up"


@pytest.mark.parametrize(("seconds", "jobs"), [(30.0, 2), (0.0, 3)])
def test_workers_of_write_are_used_again_if_those_of_the_format_started_slowly(
    seconds: float, jobs: int, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark stops workers that are idle for a minute."""
    warm_up(spark).join(120)
    monkeypatch.setattr(module, "_IDLE_S", seconds)
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    warm_up(spark).join(120)
    assert len(tracker.getJobIdsForGroup(None)) - before == jobs


def test_failure_is_only_logged(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCHEMA", "no schema")
    caplog.set_level("DEBUG", module.__name__)
    warm_up(spark).join(60)
    assert "not started in advance" in caplog.text


@pytest.mark.parametrize("seconds", ["0", "1", "3"])
def test_session_stops_during_warm_up(seconds: str) -> None:
    done = run(STOPPED_SESSION, seconds)
    assert "the Spark session is stopped" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.deep
def test_spark_connect() -> None:
    done = run(CONNECT)
    kinds, stopped = done.stdout.splitlines()
    assert kinds == str(sorted(KINDS))
    assert "the Spark session is stopped" in stopped
    assert "Traceback" not in done.stderr


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program with its own session, whose workers use this environment."""
    child = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        child, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def test_invalid_argument_is_named() -> None:
    with pytest.raises(ConfigError, match=r"warm_up\(spark\)"):
        warm_up("session")  # type: ignore[arg-type]
