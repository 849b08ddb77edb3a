"""Registration of the data source with a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafka_sink import ConfigError, KafkaProdDataSource, register
from spark_kafka_sink.spark.runtime.session_checks import reject_wheel

STOPPED_THERE = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))


class Session:
    """A fake Spark Connect session; registering raises `error_class`."""

    createDataFrame = None  # noqa: N815 - PySpark's name
    """An attribute by which a session is recognized."""

    def __init__(self, error_class: str | None = None, *, is_stopped: bool = False) -> None:
        self.error_class = error_class
        self.is_stopped = is_stopped
        self.registered: list[type] = []

    @property
    def dataSource(self) -> Session:  # noqa: N802 - PySpark's name
        return self

    def register(self, source: type) -> None:
        self.registered.append(source)
        if self.error_class is not None:
            raise PySparkException("no", errorClass=self.error_class, messageParameters={})


def test_session_registers_the_source_once() -> None:
    session: Any = Session()
    register(session)
    register(session)
    assert session.registered == [KafkaProdDataSource]


def test_already_registered_source_is_accepted() -> None:
    session: Any = Session("DATA_SOURCE_ALREADY_EXISTS")
    register(session)
    register(session)
    assert len(session.registered) == 1


def test_other_errors_are_raised_each_time() -> None:
    session: Any = Session("FOREIGN")
    for _ in range(2):
        with pytest.raises(PySparkException, match="no"):
            register(session)
    assert len(session.registered) == 2


def classic(jvm: object) -> SparkSession:
    """Create a classic session whose context has this JVM."""
    session = object.__new__(SparkSession)
    session._sc = cast("SparkContext", SimpleNamespace(_jsc=jvm))
    return session


class StoppedContext:
    """The context of a JVM that has ended."""

    def sc(self) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize(
    "session",
    [Session(is_stopped=True), classic(None), classic(STOPPED_THERE), classic(StoppedContext())],
    ids=["connect", "classic", "in the JVM", "without JVM"],
)
def test_stopped_session_is_reported(session: Any) -> None:
    with pytest.raises(ConfigError, match="session is stopped"):
        register(session)


def test_wheel_on_the_python_path_is_rejected() -> None:
    """Executors would not find the package; in a zip file they do."""
    module = "spark_kafka_sink/spark/registration.py"
    reject_wheel(f"/jobs/spark_kafka_sink.zip/{module}")
    with pytest.raises(ConfigError, match=r"spark_kafka_sink\.zip"):
        reject_wheel(f"/jobs/spark_kafka_sink-0.1.0-py3-none-any.whl/{module}")
