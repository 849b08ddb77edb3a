"""Two brokers, one of which accepts requests but does not process them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster, Peer
from tests.support.harness.world import World, world

BUFFER = 64_000
STALLED = 2


class StallingCluster(FakeCluster):
    """A cluster whose stalled brokers accept requests but do not process them."""

    def __init__(self) -> None:
        super().__init__(nodes=2, topics={"t": 4})
        self.stalled: set[int] = set()
        self._waiting: list[tuple[Peer, memoryview]] = []

    def serve(self, peer: Peer, frame: memoryview) -> None:
        if peer.node in self.stalled:
            self._waiting.append((peer, memoryview(bytes(frame))))
        else:
            super().serve(peer, frame)

    def resume(self) -> None:
        """Process the requests that the stalled brokers have received."""
        self.stalled.clear()
        for peer, frame in self._waiting:
            if peer in self.peers:
                self.serve(peer, frame)
        self._waiting.clear()


@contextmanager
def stalled_cluster(
    settings: SessionSettings | None = None, **options: Any
) -> Iterator[tuple[World, StallingCluster]]:
    """Create two brokers; the second one is stalled."""
    cluster = StallingCluster()
    settings_of_world: dict[str, Any] = {
        "buffer_memory": BUFFER,
        "request_timeout_ms": 10**7,
        "delivery_timeout_ms": 10**8,
    }
    with world(cluster, settings, **{**settings_of_world, **options}) as sim:
        for partition in range(4):
            sim.send([b"first"], partition)
        sim.close_batches()
        sim.finish()
        cluster.stalled.add(STALLED)
        yield sim, cluster


def numbered_rows(first: int, rows: int) -> Rows:
    """Create numbered rows, assigned to the partitions in rotation."""
    numbers = range(first, first + rows)
    return Rows(
        columns=Columns(value=pa.array([b"%06d" % n + b"." * 84 for n in numbers], pa.binary())),
        topics=("t",),
        partition=pa.array([n % 4 for n in numbers], pa.int32()),
    )


def held_now(sim: World) -> list[int]:
    """Return the bytes charged for each partition; the stalled broker leads 1 and 3."""
    quotas = sim.buffer.quotas
    return [quotas.charged_bytes(TopicPartition("t", number)) for number in range(4)]


def bytes_of_stalled(sim: World) -> int:
    return sum(held_now(sim)[1::2])
