"""One SparkSession for all Spark tests, and its console output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.spark.releases import reason
from tests.spark.support.console import Console
from tests.spark.support.sink import OURS, Sink, create_topics
from tests.spark.support.stream import Stream
from tests.support.schema_registry import SmallRegistry, running
from tools.support.jars import SPARK_AVRO, SPARK_SINK
from tools.support.spark_session import KRB5_CONFIG, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tools.support.kafka_cluster import KafkaCluster


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files whose tests do not apply to this release."""
    name = collection_path.relative_to(config.rootpath).as_posix()
    return True if reason(name) is not None else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that do not apply to this release."""
    other = [item for item in items if reason(item.nodeid) is not None]
    if other:
        config.hook.pytest_deselected(items=other)
        items[:] = [item for item in items if item not in other]


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder for the warehouse, event log and console output of the Spark session."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def console(spark_folder: Path) -> Console:
    """Return the console output of Spark and its Python workers."""
    return Console(spark_folder / "console.txt")


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, spark_folder: Path, console: Console
) -> Iterator[SparkSession]:
    """Run a local Spark with two task slots.

    If deep tests run, it has Spark's Kafka sink and Avro functions, which they compare with.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ[KRB5_CONFIG] = str(spark_folder / "krb5.conf")
    deep = any(item.get_closest_marker("deep") for item in request.session.items)
    with console.collecting():
        session = start(spark_folder, (SPARK_SINK, SPARK_AVRO) if deep else ())
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Run an embedded broker that creates topics."""
    with EmbeddedBroker(auto_create_topics=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def registry() -> Iterator[SmallRegistry]:
    """Run a schema registry."""
    with running() as registry:
        yield registry


@pytest.fixture
def sink(real_kafka: KafkaCluster, spark: SparkSession, request: pytest.FixtureRequest) -> Sink:
    """Return a sink that writes to the real Kafka; see `BOTH_WAYS`."""
    return Sink(spark, real_kafka.bootstrap_servers, getattr(request, "param", OURS))


@pytest.fixture
def topic(real_kafka: KafkaCluster, unique_topic: str) -> str:
    """Create an empty topic with four partitions on the real Kafka."""
    create_topics(real_kafka, [unique_topic])
    return unique_topic


@pytest.fixture
def stream(sink: Sink, topic: str, tmp_path: Path) -> Stream:
    """Return a stream to an empty topic."""
    return Stream(sink, tmp_path, topic)
