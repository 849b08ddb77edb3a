"""The stream of most tests in this folder."""

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.integration.exactly_once.simulated_writes import PARTITIONS, Writes, stream
from tools.support.admin import Admin
from tools.support.kafka_cluster import KafkaCluster


@pytest.fixture
def query(any_kafka: KafkaCluster | EmbeddedBroker, unique_topic: str) -> Writes:
    """Return a stream with its own topic and prefix."""
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    return stream(any_kafka.bootstrap_servers, unique_topic, f"p-{unique_topic}")
