"""Brokers and topics for every test."""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.jars import OLD_KAFKA
from tests.support.kafka.zookeeper import ZooKeeperCluster
from tests.support.security.secured import SecuredKafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink import EmbeddedBroker

_numbers = itertools.count(1)
# Sparks that tests start compile quickly rather than well.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python reads its schemas in a way that the standard library wants changed."""
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated")


# How long an example takes depends on what else the machine does.
settings.register_profile("spark-kafka-sink", deadline=None)
settings.load_profile("spark-kafka-sink")


@pytest.fixture(scope="session")
def real_kafka() -> Iterator[KafkaCluster]:
    """One node of a real Apache Kafka, shared by the whole session."""
    with KafkaCluster() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def real_kafka3() -> Iterator[KafkaCluster]:
    """Three nodes of a real Apache Kafka; a test that stops one starts it again."""
    with KafkaCluster(nodes=3) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def old_kafkas() -> Iterator[Mapping[str, ZooKeeperCluster]]:
    """Two nodes of each older release, by release; a test that stops one starts it again."""
    clusters = {release: ZooKeeperCluster(release) for release in OLD_KAFKA}
    with ExitStack() as stack:
        for cluster in clusters.values():
            stack.callback(cluster.close)
            cluster.start()
        for cluster in clusters.values():
            cluster.wait_ready()
        yield clusters


@pytest.fixture(params=OLD_KAFKA)
def old_kafka(
    request: pytest.FixtureRequest, old_kafkas: Mapping[str, ZooKeeperCluster]
) -> ZooKeeperCluster:
    """Every test that takes this runs on each older release."""
    return old_kafkas[request.param]


@pytest.fixture(scope="session")
def secured_kafka() -> Iterator[SecuredKafka]:
    """One node of a real Apache Kafka that asks who comes, with every listener."""
    with SecuredKafka() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """Our own broker, shared by the whole session."""
    from spark_kafka_sink import EmbeddedBroker

    with EmbeddedBroker(auto_create_topics=True) as broker:
        yield broker


@pytest.fixture(params=["kafka", "embedded"])
def any_kafka(request: pytest.FixtureRequest) -> KafkaCluster | EmbeddedBroker:
    """Every test that takes this runs twice: on a real Kafka and on our own broker."""
    name = "real_kafka" if request.param == "kafka" else "embedded_broker"
    broker: KafkaCluster | EmbeddedBroker = request.getfixturevalue(name)
    return broker


@pytest.fixture
def unique_topic() -> str:
    """A topic name that no other test uses; the topic itself isn't created."""
    return f"topic-{os.getpid()}-{next(_numbers)}"
