"""Finding the package's error in an exception of Spark."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from spark_kafka_sink import ColumnError, ConfigError, UnknownTopicError, error_of
from spark_kafka_sink.spark.runtime import spark_errors
from spark_kafka_sink.spark.runtime.spark_errors import without_traceback

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


def test_error_of_a_task() -> None:
    error = error_of(PySparkException(TASK))
    assert isinstance(error, UnknownTopicError)
    assert (error.topic, error.error) == ("evnets", "UNKNOWN_TOPIC_OR_PARTITION")
    assert error.hint == "create the topic"
    assert [(status.topic, status.records) for status in error.statuses] == [("evnets", 1200)]


HIDDEN = """[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: \
spark_kafka_sink.common.errors.ConfigError: unknown option kafka.lingr.ms. Did you mean \
kafka.linger.ms?
 SQLSTATE: 38000"""


def test_error_without_traceback() -> None:
    error = error_of(PySparkException(HIDDEN))
    assert isinstance(error, ConfigError)
    assert error.message == "unknown option kafka.lingr.ms"
    assert error.hint == "Did you mean kafka.linger.ms?"


@pytest.mark.parametrize(
    ("module", "error", "hides"),
    [
        ("pyspark.daemon", ConfigError("wrong"), True),
        ("pyspark.sql.worker.write_into_data_source", ConfigError("wrong"), True),
        ("pyspark.daemon", ValueError("a fault"), False),
        ("users.job", ConfigError("wrong"), False),
    ],
)
def test_only_package_errors_in_workers_lose_their_traceback(
    module: str, error: Exception, hides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(module, None))
    with pytest.raises(type(error)), without_traceback():
        raise error
    assert os.environ["SPARK_HIDE_TRACEBACK"] == ("1" if hides else "")


@pytest.mark.deep  # needs IPython
def test_notebook_shows_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell()
    shell.user_ns["exception"] = PySparkException(HIDDEN)
    shell.run_cell("%load_ext spark_kafka_sink")
    assert not shell.run_cell("raise exception").success
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "ConfigError: unknown option kafka.lingr.ms. Did you mean kafka.linger.ms?"
    assert others == ["(%tb shows the traceback)"]
    shell.run_cell("%tb")
    assert "SQLSTATE: 38000" in capsys.readouterr().out
    shell.user_ns["exception"] = PySparkException("another")
    shell.run_cell("raise exception")
    assert "Traceback (most recent call last)" in capsys.readouterr().out
    shell.run_cell("%unload_ext spark_kafka_sink")
    shell.user_ns["exception"] = PySparkException(HIDDEN)
    shell.run_cell("raise exception")
    assert "Traceback (most recent call last)" in capsys.readouterr().out


def test_package_error_is_found_directly_or_as_cause() -> None:
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
def test_spark_rejection_has_a_hint(text: str, hint: str) -> None:
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
def test_rejection_of_another_format_has_no_hint(text: str) -> None:
    assert error_of(PySparkException(text)) is None


NOT_FOUND = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafkaprod. Make sure"


@pytest.mark.parametrize("variable", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_error_in_a_script_names_sparks_python(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "/elsewhere/python3")
    error = error_of(PySparkException(NOT_FOUND))
    assert error is not None
    assert "/elsewhere/python3" in str(error)
    hint = error.hint or ""
    assert hint.startswith(f"Set {variable}={sys.executable} before the driver starts")
    assert ("or call register(spark)" in hint) == (variable != "PYSPARK_PYTHON")


def test_server_of_spark_connect_does_not_follow_register(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setattr(spark_errors, "_python_of_spark", lambda: ("PYSPARK_PYTHON", "/other/py"))
    error = error_of(PySparkException(NOT_FOUND))
    assert error is not None
    assert error.hint == f"Set PYSPARK_PYTHON={sys.executable} before the driver starts."


def test_missing_package_names_sparks_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/elsewhere/python3")
    error = error_of(PySparkException("ModuleNotFoundError: No module named 'spark_kafka_sink'"))
    assert error is not None
    assert (error.hint or "").endswith("on this machine, that is /elsewhere/python3.")


def test_hints_are_sentences() -> None:
    for _, _, hint in spark_errors._REJECTIONS:
        assert hint[0].isupper()
        assert hint.endswith(".")


def test_default_python_is_python3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tmp_path / "python3"
    first.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(variable, raising=False)
    error = error_of(PySparkException(NOT_FOUND))
    assert error is not None
    assert str(first) in str(error)
    assert (error.hint or "").startswith("Set PYSPARK_PYTHON=")


def test_error_in_a_thread_mentions_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python3")
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(error_of, PySparkException(NOT_FOUND)).result()
    assert error is not None
    assert "register(spark)" in (error.hint or "")


def test_other_errors_are_not_translated() -> None:
    assert error_of(ZeroDivisionError("division by zero")) is None
    assert error_of(PySparkException("[DATA_SOURCE_NOT_FOUND] Failed to find: avro")) is None
