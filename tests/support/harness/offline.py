"""A producer session without threads or a network, for tests that inspect its batches."""

from __future__ import annotations

from contextlib import contextmanager
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import UUID

from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot, ClusterTopic, Node
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.session import ProducerSession
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.kafka.client.channel.background import Calls
    from spark_kafka_sink.kafka.client.channel.transport import Connect
    from spark_kafka_sink.kafka.client.client import Loop
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch

START_MS = 1_700_000_000_000
EVERYTHING = 1 << 60


def config(**options: object) -> ProducerConfig:
    """Return a producer configuration; `batch_size=1` sets kafka.batch.size=1."""
    kafka_options = {
        f"kafka.{name.replace('_', '.')}": str(value) for name, value in options.items()
    }
    return ProducerConfig.parse({"kafka.bootstrap.servers": "boot:9092"} | kafka_options)


def topic(name: str, partitions: int, leader: int = 1) -> ClusterTopic:
    """Return a topic with one leader for all partitions."""
    number = UUID(int=0x1000 + sum(name.encode()))
    return ClusterTopic(name, number, (leader,) * partitions, (0,) * partitions)


class ManualClient(ProducerClient):
    """A client whose event loop runs only when a test calls it."""

    def __init__(
        self,
        settings: ProducerConfig,
        clock: Clock,
        connect: Connect | None = None,
        logins: Calls | None = None,
    ) -> None:
        super().__init__(settings, clock=clock, random=Random(7), connect=connect, logins=logins)

    def attach(self, loop: Loop) -> None:
        self._run_loop(loop)

    def detach(self) -> None:
        self.metadata.end_session(self.clock.monotonic())
        self._run_loop(None)


@contextmanager
def offline(
    settings: ProducerConfig, topics: Mapping[str, int], clock: Clock | None = None
) -> Iterator[ProducerSession]:
    """Open a session with metadata for `topics` (name to partition count) that never sends."""
    client = ManualClient(settings, clock or ManualClock(start_ms=START_MS))
    client.metadata.cluster = ClusterSnapshot(
        nodes=MappingProxyType({1: Node(1, "boot", 9092)}),
        topics=MappingProxyType({name: topic(name, count) for name, count in topics.items()}),
    )
    session = ProducerSession(client)
    try:
        yield session
    finally:
        session.close()
        client.close()


def take_batches(session: ProducerSession) -> dict[TopicPartition, list[ProducerBatch]]:
    """Remove and return all batches of the session, in order for each partition."""
    taken: dict[TopicPartition, list[ProducerBatch]] = {}
    for batch in session.buffer.accumulator.take_all():
        taken.setdefault(batch.topic_partition, []).append(batch)
    return taken


def wire(batch: ProducerBatch) -> bytes:
    """Return the encoded batch as sent in a Produce request."""
    return b"".join(bytes(part) for part in batch.encode())
