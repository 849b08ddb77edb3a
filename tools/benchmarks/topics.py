"""One topic per run: created before the run, counted after it, and deleted to free space."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from tools.benchmarks.results import BenchmarkError
from tools.support.admin import Admin
from tools.support.kafka_cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 8
_WAIT_S = 60


class Measured(TypedDict):
    """Settings of the measured cluster."""

    config: dict[str, str]
    heap_mib: int
    java_options: tuple[str, ...]


MEASURED = Measured(
    config={"log.segment.delete.delay.ms": "500", "auto.create.topics.enable": "false"},
    heap_mib=1024,
    java_options=(),
)
"""Settings: a heap of 1 GiB, and immediate deletion of the files of deleted topics."""


class TopicError(BenchmarkError):
    """The broker failed to create, count or delete a topic."""


class CountError(BenchmarkError):
    """The topic does not contain the number of records that the contestant reported."""


@contextmanager
def measured_kafka() -> Iterator[KafkaCluster]:
    """Start a real single-node Kafka."""
    with KafkaCluster(**MEASURED) as kafka:
        yield kafka


@contextmanager
def fresh_topic(
    bootstrap_servers: str, expected: int, markers: int = 0, partitions: int = PARTITIONS
) -> Iterator[str]:
    """Create a topic (default: 8 partitions). On exit, check that it contains `expected` records.

    With transactions, up to `markers` transaction markers are also counted.

    Raises:
        CountError: it contains a different number of records.
        TopicError: the broker failed to create, count or delete the topic.
    """
    with _made(bootstrap_servers, [f"bench-{uuid.uuid4().hex[:12]}"], partitions) as (name,):
        yield name
        found = _records(bootstrap_servers, [name], partitions)
        if not expected <= found <= expected + markers:
            raise CountError(f"{name} contains {found:,} records, expected {expected:,}")


@contextmanager
def fresh_topics(bootstrap_servers: str, expected: int, count: int) -> Iterator[list[str]]:
    """Create one-partition topics, numbered from 0. On exit, check for `expected` records in total.

    Raises:
        CountError: they contain a different number of records.
        TopicError: as for `fresh_topic`.
    """
    prefix = f"bench-{uuid.uuid4().hex[:12]}"
    names = [f"{prefix}-{number}" for number in range(count)]
    with _made(bootstrap_servers, names, 1):
        yield names
        found = _records(bootstrap_servers, names, 1)
        if found != expected:
            raise CountError(f"{prefix} contain {found:,} records, expected {expected:,}")


@contextmanager
def _made(bootstrap_servers: str, names: list[str], partitions: int) -> Iterator[list[str]]:
    admin = Admin(bootstrap_servers)
    try:
        admin.create_topics(*(NewTopic(name, partitions, 1) for name in names))
        try:
            yield names
        finally:
            client = admin.client()
            for deleted in client.delete_topics(names).values():
                deleted.result(_WAIT_S)
    except KafkaException as error:
        raise TopicError(f"{names[0]}: {error}") from error


def _records(bootstrap_servers: str, topics: list[str], partitions: int) -> int:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "count",
        # With read_committed the end offset would exclude transactions without a marker.
        "isolation.level": "read_uncommitted",
    }
    consumer = Consumer(settings)
    try:
        marks = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            for topic in topics
            for number in range(partitions)
        ]
    finally:
        consumer.close()
    return sum(high - low for low, high in marks)
