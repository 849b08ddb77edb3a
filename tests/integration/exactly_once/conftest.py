"""The stream of most tests in this folder."""

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.integration.exactly_once.simulated_writes import Writes, stream_to
from tools.support.kafka_cluster import KafkaCluster


@pytest.fixture
def query(any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str) -> Writes:
    """Return a stream with its own topic and prefix."""
    return stream_to(any_kafka, unique_topic)
