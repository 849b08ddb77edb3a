"""Rows of one task that meet in one partition keep their order, however they came to it.

If row a comes before row b and both end up in partition p, a lies before b in p's log: with and
without keys, with partitions of their own or the user's, over several chunks and topics, faults,
retries, moves of leaders, splits, and whatever the codec.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from tests.property.tolerated_faults import PASSES, limit, passing
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

TOPICS = {"one": 1, "few": 3, "more": 8}
NAMES = tuple(TOPICS)
topics = st.sampled_from([0, 1, 2])
moves = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(NAMES), st.integers(0, 7)), max_size=3
)
# The codec, and the brokers' batch limit: 700 bytes split every full batch.
codecs = st.sampled_from([("none", PASSES), ("none", 700), ("lz4", PASSES)])
lingers = st.sampled_from([0, 10, 10**6])
partitioners = st.sampled_from(["", "fnv1a_random", "tests.property.test_order:by_first_byte"])
spreads = st.sampled_from(["true", "false"])


@dataclass(frozen=True)
class Row:
    """The target of a row: a topic, a partition modulo its count or None, a key or None."""

    topic: int
    partition: int | None
    key: bytes | None
    size: int


no_key = st.builds(Row, topics, st.none(), st.none(), st.integers(0, 400))
keyed = st.builds(
    Row, topics, st.none(), st.sampled_from([b"a", b"b", b"c", b""]), st.integers(0, 400)
)
explicit = st.builds(Row, topics, st.integers(0, 7), st.none() | st.just(b"k"), st.integers(0, 400))
rows_of_a_kind = st.one_of(
    st.lists(no_key, min_size=1, max_size=30),
    st.lists(keyed, min_size=1, max_size=30),
    st.lists(st.one_of(no_key, keyed, explicit), min_size=1, max_size=30),
    st.lists(st.one_of(no_key, explicit), min_size=1, max_size=30),
)


@dataclass
class Chunk:
    """Rows appended together, and the sender's steps after them."""

    rows: list[Row]
    turns: int


chunks = st.lists(st.builds(Chunk, rows_of_a_kind, st.integers(0, 6)), min_size=1, max_size=8)


def by_first_byte(
    key: pa.BinaryArray | None, value: pa.BinaryArray, count: int
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """A user's partitioner that leaves keyless rows to the producer."""
    keys = [None] * len(value) if key is None else key.to_pylist()
    chosen = [-1 if key is None else (key[0] if key else 0) % count for key in keys]
    return np.array(chosen, np.int32)


@dataclass
class Plan:
    """A task's chunks and the events on the brokers meanwhile."""

    chunks: list[Chunk]
    moves: list[tuple[int, str, int]] = field(default_factory=list)
    appended: int = 0
    turn: int = 0

    def play(self, sim: World) -> None:
        """Append the chunks while stepping the sender, then wait until all batches are settled."""
        for chunk in self.chunks:
            sim.session.append(self.to_rows(chunk.rows))
            self._turns(sim, chunk.turns)
        sim.close_batches()
        for _ in range(8_000):
            if not sim.buffer.state.incomplete_batches:
                return
            self._turns(sim, 1)
        raise AssertionError("it takes for ever")

    def to_rows(self, rows: list[Row]) -> Rows:
        """Create a chunk whose values are the task's row numbers."""
        first, self.appended = self.appended, self.appended + len(rows)
        values = [b"%06d" % n + b"." * row.size for n, row in enumerate(rows, first)]
        requested = [
            None if row.partition is None else row.partition % TOPICS[NAMES[row.topic]]
            for row in rows
        ]
        return Rows(
            columns=Columns(
                value=pa.array(values, pa.binary()),
                key=pa.array([row.key for row in rows], pa.binary()),
            ),
            topics=NAMES,
            topic_indexes=np.array([row.topic for row in rows], np.int32),
            partition=pa.array(requested, pa.int32()),
        )

    def _turns(self, sim: World, count: int) -> None:
        for _ in range(count):
            for _, name, partition in (move for move in self.moves if move[0] == self.turn):
                topic_partition = name, partition % TOPICS[name]
                sim.cluster.move(*topic_partition, 3 - sim.cluster.logs[topic_partition].leader)
            if not self.turn % 40:
                sim.cluster.release()
            sim.step()
            self.turn += 1


def check_order(sim: World, appended: int) -> None:
    """Check that each record exists once, and each partition has the order of its rows."""
    total = 0
    for topic_partition, log in sim.cluster.logs.items():
        numbers = [int((value or b"")[:6]) for value in log.values()]
        assert numbers == sorted(set(numbers)), topic_partition
        total += len(numbers)
    assert total == appended
    assert sim.statuses() == {DeliveryStatus.PERSISTED: appended}
    sim.check_memory_accounting()


@given(st.lists(passing, max_size=25), chunks, moves, codecs, lingers, partitioners, spreads)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rows_in_one_partition_keep_their_order(
    faults: list[Fault | None],
    task: list[Chunk],
    moved: list[tuple[int, str, int]],
    codec: tuple[str, int],
    linger: int,
    partitioner: str,
    adaptive: str,
) -> None:
    cluster = FakeCluster(nodes=2, topics=TOPICS)
    options: dict[str, Any] = {
        "compression_type": codec[0],
        "linger_ms": linger,
        "partitioner_adaptive_partitioning_enable": adaptive,
    }
    if partitioner:
        options["partitioner"] = partitioner
    with world(cluster, **options) as sim:
        limit(cluster, codec[1])
        sim.fault(*faults)
        plan = Plan(task, moved)
        plan.play(sim)
        check_order(sim, plan.appended)
