"""Which error of ours an exception of Spark's tells of."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from spark_kafka_sink import ColumnError, ConfigError, UnknownTopicError, error_of

if TYPE_CHECKING:
    from pathlib import Path

TASK = """An error occurred while calling o62.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 \
times, most recent failure: org.apache.spark.api.python.PythonException: Traceback (most recent \
call last):
  File "writer.py", line 62, in run
    session.flush()
spark_kafka_sink.common.errors.UnknownTopicError: the topic could not be used [topic=evnets, \
error=UNKNOWN_TOPIC_OR_PARTITION]. create the topic
Records: not persisted 1,200
  evnets: not persisted 1,200 (UNKNOWN_TOPIC_OR_PARTITION)

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""


def test_of_a_task() -> None:
    error = error_of(PySparkException(TASK))
    assert isinstance(error, UnknownTopicError)
    assert (error.topic, error.error) == ("evnets", "UNKNOWN_TOPIC_OR_PARTITION")
    assert error.hint == "create the topic"
    assert [(each.topic, each.records) for each in error.statuses] == [("evnets", 1200)]


def test_one_of_ours_is_the_answer_and_so_is_a_cause() -> None:
    ours = ColumnError("a null topic")
    outer = RuntimeError("the job has failed")
    outer.__cause__ = ours
    assert error_of(ours) is error_of(outer) is ours


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "kafkaprod" cannot be written',
            "append",
        ),
        ("requirement failed: kafkaprod does not support Update mode", "micro_batch_writer"),
        ("ModuleNotFoundError: No module named 'spark_kafka_sink'", "PYSPARK_PYTHON"),
        (
            '[X.CANNOT_SAFELY_CAST] Cannot safely cast `key` "STRING" to "BINARY"',
            "CAST(value AS BINARY)",
        ),
        (
            "[STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST] v2.python.PythonTable",
            "processingTime='0 seconds'",
        ),
        ("Sink kafkaprod does not support async progress tracking", "processingTime='0 seconds'"),
    ],
)
def test_what_spark_refuses_has_a_hint(text: str, hint: str) -> None:
    error = error_of(PySparkException(f"{text}. SQLSTATE: 0A000"))
    assert isinstance(error, ConfigError)
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        'CANNOT_SAFELY_CAST] Cannot safely cast `price` "STRING" to "BINARY"',
        'CANNOT_SAFELY_CAST] Cannot safely cast `value` "STRING" to "INT"',
        "[STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED] Streaming real-time mode",
    ],
)
def test_what_spark_refuses_of_others_has_none(text: str) -> None:
    assert error_of(PySparkException(text)) is None


NOT_FOUND = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafkaprod. Make sure"


@pytest.mark.parametrize("variable", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_a_script_hears_which_python_spark_takes(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv(variable, "/elsewhere/python3")
    error = error_of(PySparkException(NOT_FOUND))
    assert error is not None
    assert "/elsewhere/python3" in str(error)
    assert error.hint == f"set {variable}={sys.executable} before the driver starts"


def test_without_a_name_spark_takes_the_first_python3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "python3"
    first.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(variable, raising=False)
    error = error_of(PySparkException(NOT_FOUND))
    assert error is not None
    assert str(first) in str(error)
    assert (error.hint or "").startswith("set PYSPARK_PYTHON=")


def test_a_thread_is_told_of_register_whatever_python_spark_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python3")
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(error_of, PySparkException(NOT_FOUND)).result()
    assert error is not None
    assert "register(spark)" in (error.hint or "")


def test_another_error_is_none_of_ours() -> None:
    assert error_of(ZeroDivisionError("division by zero")) is None
    assert error_of(PySparkException("[DATA_SOURCE_NOT_FOUND] Failed to find: avro")) is None
