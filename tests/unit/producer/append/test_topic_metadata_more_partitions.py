"""A topic gains partitions during a write: rows for the new partitions are accepted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.session_context import SessionSettings
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.world import World, world
from tests.support.harness.writer_thread import Writer

TOLERANT = SessionSettings(dead_letters=DeadLetterPolicy(tolerance=Tolerance.ALL))
PARTITIONS = 2


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def add_partitions(sim: World) -> None:
    for partition in range(PARTITIONS, 2 * PARTITIONS):
        sim.cluster.logs["t", partition] = FakeLog(leader=1)


def metadata_requests(sim: World) -> int:
    return sum(api is ApiKey.METADATA for _, api in sim.cluster.requests)


@pytest.mark.parametrize("settings", [None, TOLERANT], ids=["strict", "tolerant"])
def test_new_partition_is_written(
    pool: ThreadPoolExecutor, settings: SessionSettings | None
) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS}), settings) as sim:
        writer = Writer(sim, pool)
        assert writer.call(lambda: sim.send([b"old"], 1)) is None
        sim.clock.advance(5)
        add_partitions(sim)
        assert writer.call(lambda: sim.send([b"new"], 3)) is None
        assert writer.call(sim.session.flush) is None
        assert sim.cluster.logs["t", 3].values() == [b"new"]
        sim.check_accounting()


def test_missing_partition_is_rejected_after_a_metadata_refresh(
    pool: ThreadPoolExecutor,
) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS})) as sim:
        sim.clock.advance(5)
        before, began = metadata_requests(sim), sim.clock.monotonic()
        error = Writer(sim, pool).call(lambda: sim.send([b"a"], 7))
        assert isinstance(error, ColumnError)
        assert "the topic has partitions 0 to 1" in str(error)
        assert metadata_requests(sim) == before + 1
        assert sim.clock.monotonic() - began < 10  # max.block.ms is 60 s


def test_poison_rows_do_not_cause_metadata_requests_continuously(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS}), TOLERANT) as sim:
        sim.clock.advance(5)
        before, writer = metadata_requests(sim), Writer(sim, pool)
        for _ in range(20):
            assert writer.call(lambda: sim.send([b"a"], 7)) is None
        assert sim.clock.monotonic() < 106
        assert metadata_requests(sim) == before + 1
        sim.clock.advance(5)
        add_partitions(sim)
        assert writer.call(lambda: sim.send([b"new"], 3)) is None
        assert writer.call(sim.session.flush) is None
        assert sim.cluster.logs["t", 3].values() == [b"new"]
