"""Fixtures for clients of both brokers: the embedded broker and Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.support.redis_server import RedisServer
from tools.support.kafka_cluster import AnyKafka
from tools.support.raw_client import RawClient, create


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 4}) as broker:
        yield broker


@pytest.fixture
def raw(kafka: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(kafka.bootstrap_servers) as client:
        yield client


@pytest.fixture
def any_raw(any_kafka: AnyKafka) -> Iterator[RawClient]:
    """Yield a raw client of a real Kafka and of the embedded broker."""
    with RawClient(any_kafka.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(any_raw: RawClient, unique_topic: str) -> str:
    create(any_raw, unique_topic)
    return unique_topic


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run one redis-server for the session; each test uses its own prefix."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a redis-server that a test can stop."""
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer, unique_topic: str) -> str:
    return redis_server.url(prefix=unique_topic)


@pytest.fixture
def redis_kafka(redis_url: str) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(storage=redis_url, topics={"t": 4}) as broker:
        yield broker


@pytest.fixture
def redis_raw(redis_kafka: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(redis_kafka.bootstrap_servers) as client:
        yield client
