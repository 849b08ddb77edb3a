"""Brokers and topics for every test."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.kafka.broker import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.broker import EmbeddedBroker

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python reads its schemas in a way that the standard library wants changed."""
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated")


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
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """Our own broker, shared by the whole session."""
    from spark_kafka_sink.broker import EmbeddedBroker

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
