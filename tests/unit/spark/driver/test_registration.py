"""What a session is told, and how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafka_sink import ConfigError, KafkaProdDataSource, register
from spark_kafka_sink.spark.registration import reject_wheel

if TYPE_CHECKING:
    from pyspark import SparkContext


class Session:
    """A session of Spark Connect, as far as it is asked; `refusal` is what registering raises."""

    def __init__(self, refusal: str | None = None, *, is_stopped: bool = False) -> None:
        self.refusal = refusal
        self.is_stopped = is_stopped
        self.registered: list[type] = []

    @property
    def dataSource(self) -> Session:  # noqa: N802 - PySpark's name
        return self

    def register(self, source: type) -> None:
        self.registered.append(source)
        if self.refusal is not None:
            raise PySparkException("no", errorClass=self.refusal, messageParameters={})


def test_a_session_is_told_once() -> None:
    session: Any = Session()
    register(session)
    register(session)
    assert session.registered == [KafkaProdDataSource]


def test_one_that_spark_has_found_already_will_do() -> None:
    session: Any = Session("DATA_SOURCE_ALREADY_EXISTS")
    register(session)
    register(session)
    assert len(session.registered) == 1


def test_another_refusal_is_raised_each_time() -> None:
    session: Any = Session("FOREIGN")
    for _ in range(2):
        with pytest.raises(PySparkException, match="no"):
            register(session)
    assert len(session.registered) == 2


def classic(jvm: object) -> SparkSession:
    """A classic session whose context has this for its JVM's."""
    session = object.__new__(SparkSession)
    session._sc = cast("SparkContext", SimpleNamespace(_jsc=jvm))
    return session


class Gone:
    """The context of a JVM that has ended."""

    def sc(self) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")


STOPPED_THERE = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))


@pytest.mark.parametrize(
    "session",
    [Session(is_stopped=True), classic(None), classic(STOPPED_THERE), classic(Gone())],
    ids=["connect", "classic", "in the JVM", "without JVM"],
)
def test_a_stopped_session_is_said_to_be_stopped(session: Any) -> None:
    with pytest.raises(ConfigError, match="session is stopped"):
        register(session)


def test_a_wheel_on_the_python_path_is_refused() -> None:
    """Executors would not find the package; in a zip they do."""
    module = "spark_kafka_sink/spark/registration.py"
    reject_wheel(f"/jobs/spark_kafka_sink.zip/{module}")
    with pytest.raises(ConfigError, match=r"spark_kafka_sink\.zip"):
        reject_wheel(f"/jobs/spark_kafka_sink-0.1.0-py3-none-any.whl/{module}")
