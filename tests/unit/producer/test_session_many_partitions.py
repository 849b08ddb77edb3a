"""The work for one batch does not depend on the number of the topic's other partitions."""

import sys
from collections.abc import Callable

import pyarrow as pa
import pytest

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import World, world

FEW, MANY = 8, 800
BUFFER = 1 << 20


def calls(work: Callable[[], object]) -> int:
    """Return the number of calls of functions in this thread."""
    count = 0

    def tick(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def rows(partitions: int) -> Rows:
    """Return one row for each partition."""
    numbers = pa.array(range(partitions), pa.int32())
    values = pa.array([b"x" * 600] * partitions, pa.binary())
    return Rows(columns=Columns(value=values), topics=("t",), partition=numbers)


def drain_with_a_retry(sim: World, partitions: int) -> int:
    """Return the calls of the drainer if each partition has a state, and one has a retry."""
    sim.session.append(rows(partitions))
    sim.finish()
    state = sim.session._sender.completion.partitions.of(TopicPartition("t", 0))
    sim.session.append(rows(1))
    sim.session.context.accumulator.close_due(sim.clock.monotonic() + 1)
    batch = sim.session.context.accumulator.queues.head(state.topic_partition)
    assert batch is not None
    sim.session.context.accumulator.drain(batch, state.topic_partition)
    state.mark_sent(batch, 1)
    state.retry(batch, sim.clock.monotonic() + 10)
    return calls(lambda: sim.session._sender.drainer.drain(sim.clock.monotonic()))


def append_under_pressure(sim: World, partitions: int) -> int:
    """Return the calls of an append while more than half of the buffer is used."""
    sim.session.append(rows(partitions))
    pool = sim.session.context.accumulator.pool
    pool.charge(BUFFER * 3 // 4 - pool.used)
    return calls(lambda: sim.session.append(rows(1)))


def check_quota(sim: World, partitions: int) -> int:
    """Return the calls of the check whether a batch without a partition may get a partition."""
    sim.session.append(rows(partitions))
    quotas, cluster = sim.session.context.accumulator.quotas, sim.client.metadata.cluster
    place = TopicPartition("t", 0)
    quotas.change(place, BUFFER // 2)
    assert quotas.is_full(place, BUFFER // 2, cluster)
    return calls(lambda: quotas.is_full(place, 1, cluster))


@pytest.mark.parametrize("work", [drain_with_a_retry, append_under_pressure, check_quota])
def test_cost_is_constant(work: Callable[[World, int], int]) -> None:
    counts = []
    for partitions in (FEW, MANY):
        cluster = FakeCluster(topics={"t": partitions})
        with world(cluster, buffer_memory=BUFFER, linger_ms=1_000, batch_size=10_000) as sim:
            counts.append(work(sim, partitions))
    assert counts[1] <= counts[0] + 10
