"""Transactions V2 on Kafka 4.3.1, V1 on 3.9.1 and 2.8.2, and the embedded broker."""

from collections.abc import Iterator

import pytest

from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.topic_handlers import NewTopic
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from tools.support.kafka_cluster import AnyKafka


@pytest.fixture(params=["4.3.1", "3.9.1", "2.8.2", "embedded"])
def kafka(request: pytest.FixtureRequest) -> AnyKafka:
    if request.param == "embedded":
        return request.getfixturevalue("embedded_broker")  # type: ignore[no-any-return]
    if request.param == "4.3.1":
        return request.getfixturevalue("real_kafka")  # type: ignore[no-any-return]
    return request.getfixturevalue("old_kafkas")[request.param]  # type: ignore[no-any-return]


@pytest.fixture
def client(kafka: AnyKafka) -> Iterator[BlockingClient]:
    with connected(kafka) as client:
        yield client


def connected(kafka: AnyKafka) -> BlockingClient:
    """Yield a client of these brokers."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    return BlockingClient(ProducerConfig.parse(options))


@pytest.fixture
def topic(client: BlockingClient, unique_topic: str) -> str:
    """Create a topic with one partition that keeps all records, whatever their age and key."""
    new = NewTopic(name=unique_topic, configs={"retention.ms": "-1"})
    TopicAdmin(client).create(new, client.deadline(60))
    return unique_topic
