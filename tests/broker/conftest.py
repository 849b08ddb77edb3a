from __future__ import annotations

import pytest

from spark_kafka_sink.broker import EmbeddedBroker
from tests.broker.raw import RawClient, create


@pytest.fixture
def kafka():
    with EmbeddedBroker(topics={"t": 4}) as broker:
        yield broker


@pytest.fixture
def raw(kafka):
    with RawClient(kafka.bootstrap_servers) as client:
        yield client


@pytest.fixture
def any_raw(any_kafka):
    """A raw client of a real Kafka, then of ours."""
    with RawClient(any_kafka.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(any_raw, unique_topic):
    create(any_raw, unique_topic)
    return unique_topic
