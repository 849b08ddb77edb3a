"""A topic for one run: made before it, counted after it, deleted so that the disk stays free."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from confluent_kafka import Consumer, TopicPartition

from tests.support.kafka.admin import Admin
from tests.support.kafka.broker import KafkaCluster
from tools.benchmarks.sample import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 8


class Measured(TypedDict):
    """What a cluster that is measured is made with."""

    config: dict[str, str]
    heap_mib: int
    java_options: tuple[str, ...]


MEASURED = Measured(
    config={"log.segment.delete.delay.ms": "500", "auto.create.topics.enable": "false"},
    heap_mib=1024,
    java_options=(),
)
"""A heap of 1 GiB, and deleted topics are freed at once."""


class CountError(BenchmarkError):
    """The topic does not hold what the contestant says it delivered."""


@contextmanager
def measured_kafka() -> Iterator[KafkaCluster]:
    """A real Kafka of one node."""
    with KafkaCluster(**MEASURED) as kafka:
        yield kafka


@contextmanager
def fresh_topic(
    bootstrap_servers: str, expected: int, markers: int = 0, partitions: int = PARTITIONS
) -> Iterator[str]:
    """A new topic, of 8 partitions unless told; afterwards it must hold exactly `expected` records.

    Where they lie in transactions, the markers of these count as well: `markers` at most.

    Raises:
        CountError: it holds another number.
    """
    admin, name = Admin(bootstrap_servers), f"bench-{uuid.uuid4().hex[:12]}"
    admin.create_topic(name, partitions)
    try:
        yield name
        found = _records(bootstrap_servers, name, partitions)
        if not expected <= found <= expected + markers:
            raise CountError(f"{name} holds {found:,} records, {expected:,} were expected")
    finally:
        admin.delete_topic(name)


def _records(bootstrap_servers: str, topic: str, partitions: int) -> int:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "count",
        # With read_committed the end would be that of the last transaction whose marker is written.
        "isolation.level": "read_uncommitted",
    }
    consumer = Consumer(settings)
    try:
        marks = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            for number in range(partitions)
        ]
    finally:
        consumer.close()
    return sum(high - low for low, high in marks)
