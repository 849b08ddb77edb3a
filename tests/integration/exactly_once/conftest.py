"""The stream of most tests in this folder, and a broker for fault injection."""

from collections.abc import Iterator

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.integration.exactly_once.simulated_writes import Writes, stream_to
from tools.support.kafka_cluster import AnyKafka


@pytest.fixture
def query(any_kafka: AnyKafka, unique_topic: str) -> Writes:
    """Return a stream with its own topic and prefix."""
    return stream_to(any_kafka, unique_topic)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Run two nodes for fault injection."""
    with EmbeddedBroker(nodes=2) as broker:
        yield broker
