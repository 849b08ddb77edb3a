"""Finding the package's error in an exception of Spark, or in its traceback."""

import os
import shutil
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from spark_kafka_sink import (
    BrokerUnavailableError,
    ColumnError,
    ConfigError,
    DeliveryError,
    KafkaProdError,
    TornTransactionError,
    UnknownTopicError,
    error_of,
)
from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.errors import FIELDS
from spark_kafka_sink.spark.runtime import spark_errors
from spark_kafka_sink.spark.runtime.spark_errors import parse_error, without_traceback

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

JVM = """org.apache.spark.SparkException: [PYTHON_DATA_SOURCE_ERROR] Failed to write: {}
\tat org.apache.spark.sql.Errors$.error(Errors.scala:12)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: {}
"""
HIDDEN = """[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: \
spark_kafka_sink.common.errors.ConfigError: unknown option kafka.lingr.ms. Did you mean \
kafka.linger.ms?
 SQLSTATE: 38000"""
NOT_FOUND = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafkaprod. Make sure"
words = st.from_regex(r"[a-z][a-z0-9 =:;,'\[\]()]{0,40}[a-z0-9]", fullmatch=True)
topics = st.from_regex(r"[a-z][a-z0-9._-]{0,20}[a-z]", fullmatch=True)
statuses = st.builds(
    PartitionStatus,
    topic=topics,
    partition=st.integers(-1, 10_000),
    records=st.integers(1, 10**12),
    status=st.sampled_from(DeliveryStatus),
    error=st.none() | st.from_regex(r"[A-Z_]{3,30}", fullmatch=True),
)
fields = st.fixed_dictionaries(
    {"topic": topics},
    optional={
        "partition": st.integers(0, 10_000),
        "broker": st.just("kafka-1:9092"),
        "kafka_error": st.just("NOT_LEADER_OR_FOLLOWER"),
        "hint": st.lists(words, min_size=1, max_size=3).map(". ".join),
    },
)


def test_error_of_a_task() -> None:
    error = error_of(PySparkException(TASK))
    assert isinstance(error, UnknownTopicError)
    assert (error.topic, error.kafka_error) == ("evnets", "UNKNOWN_TOPIC_OR_PARTITION")
    assert error.hint == "create the topic"
    assert [(status.topic, status.records) for status in error.statuses] == [("evnets", 1200)]


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
        (
            'Cannot use "INTERVAL" type in the table schema.;\nAppendData Relation[d#1] kafkaprod',
            "write(df, options)",
        ),
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
        'Cannot use "INTERVAL" type in the table schema.;\nAppendData RelationV2[d#1] orders',
    ],
)
def test_rejection_of_another_format_has_no_hint(text: str) -> None:
    assert error_of(PySparkException(text)) is None


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
    monkeypatch.setattr(shutil, "which", lambda _: "/other/python3")
    error = error_of(PySparkException(NOT_FOUND))
    assert error is not None
    assert error.hint == f"Set PYSPARK_PYTHON={sys.executable} before the driver starts."


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("ModuleNotFoundError: No module named 'spark_kafka_sink'", "spark_kafka_sink"),
        (
            (
                'File "/job/spark_kafka_sink/errors.py", line 15, in <module>\n'
                "ModuleNotFoundError: No module named 'google.protobuf'"
            ),
            "google.protobuf",
        ),
    ],
)
def test_missing_module_names_sparks_python(
    text: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/elsewhere/python3")
    error = error_of(PySparkException(text))
    assert error is not None
    assert f"does not have the module {module}. " in str(error)
    assert (error.hint or "").endswith("for /elsewhere/python3, which Spark uses here.")


def test_missing_module_of_another_package_has_no_hint() -> None:
    assert error_of(PySparkException("ModuleNotFoundError: No module named 'job'")) is None


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


def test_error_in_a_thread_mentions_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python3")
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(error_of, PySparkException(NOT_FOUND)).result()
    assert error is not None
    assert "register(spark)" in (error.hint or "")


def test_other_errors_are_not_translated() -> None:
    assert error_of(ZeroDivisionError("division by zero")) is None
    assert error_of(PySparkException("[DATA_SOURCE_NOT_FOUND] Failed to find: avro")) is None


def traceback_of(error: Exception) -> str:
    """Return the text that a Spark worker sends to the driver."""
    lines = "".join(traceback.format_exception(error))
    return f"Traceback (most recent call last):\n{lines}"


def parsed(text: str) -> KafkaProdError:
    error = parse_error(text)
    assert error is not None
    return error


def state(error: KafkaProdError) -> tuple[Any, ...]:
    details = getattr(error, "details", ())
    named = tuple(getattr(error, name) for name in FIELDS)
    return type(error), error.message, named, error.statuses, details


@settings(max_examples=50)
@given(words, fields, st.lists(statuses, max_size=10))
def test_error_round_trip(
    message: str, given_fields: dict[str, Any], statuses: list[PartitionStatus]
) -> None:
    ordered = sorted(statuses, key=lambda status: (status.topic, status.partition, status.status))
    error = DeliveryError(message, statuses=tuple(ordered), **given_fields)
    again = parsed(JVM.format(*(traceback_of(error),) * 2))
    assert str(again) == str(error)
    assert state(again) == state(error)


def test_hint_follows_the_first_sentence_without_a_location() -> None:
    error = ConfigError("unknown option foo", hint="Did you mean topic? See the page.")
    again = parsed(traceback_of(error))
    assert state(again) == state(error)


def test_last_error_of_a_chain_counts() -> None:
    error = UnknownTopicError("the topic could not be used", topic="events")
    error.__cause__ = BrokerUnavailableError("no broker answered")
    text = traceback_of(error)
    assert "BrokerUnavailableError" in text
    assert isinstance(parsed(JVM.format(text, "x")), UnknownTopicError)


def test_lines_of_a_torn_batch_are_kept() -> None:
    error = TornTransactionError("batch 3 is torn", details=("a: 3 rows", "b: 4 rows"), hint="go")
    assert state(parsed(traceback_of(error))) == state(error)


@pytest.mark.parametrize(
    "tail",
    [
        " SQLSTATE: 38000",
        " SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]\n",
        "=== Streaming Query ===\nIdentifier: [id = 1]\nCurrent Committed Offsets: {}\n\nPlan:",
    ],
)
@pytest.mark.parametrize("hint", [None, "add .mode('append')."])
def test_text_that_spark_appends_is_not_part_of_the_error(tail: str, hint: str | None) -> None:
    error = ConfigError("option kafka.acks is '7'", hint=hint)
    assert state(parsed(f"{traceback_of(error)}{tail}")) == state(error)


def test_unknown_class_is_a_base_error() -> None:
    again = parsed("spark_kafka_sink.common.errors.GoneError: it went\n")
    assert type(again) is KafkaProdError
    assert again.message == "it went"


@pytest.mark.parametrize("text", ["", "ValueError: x", "the spark_kafka_sink.ColumnError: x"])
def test_text_without_an_error_of_the_package(text: str) -> None:
    assert parse_error(text) is None


def test_errors_of_two_tasks_are_distinguished() -> None:
    first, second = ColumnError("a null topic"), ConfigError("an option")
    text = JVM.format(traceback_of(first), traceback_of(second))
    assert isinstance(parsed(text), ColumnError)
