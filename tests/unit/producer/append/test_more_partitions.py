"""A topic gains partitions in mid-write: rows that name one of them are not refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.producer.context import SessionSettings
from spark_kafka_sink.protocol.versions import ApiKey
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.world import World, world
from tests.unit.producer.append.test_first_metadata import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

TOLERANT = SessionSettings(dead_letters=DeadLetterPolicy(tolerance=Tolerance.ALL))
PARTITIONS = 2


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def grow(sim: World) -> None:
    for partition in range(PARTITIONS, 2 * PARTITIONS):
        sim.cluster.logs["t", partition] = FakeLog(leader=1)


def asked(sim: World) -> int:
    return sum(api is ApiKey.METADATA for _, api in sim.cluster.requests)


@pytest.mark.parametrize("settings", [None, TOLERANT], ids=["strict", "tolerant"])
def test_a_new_partition_is_written_to(
    pool: ThreadPoolExecutor, settings: SessionSettings | None
) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS}), settings) as sim:
        writer = Writer(sim, pool)
        assert writer.call(lambda: sim.send([b"old"], 1)) is None
        sim.clock.advance(5)
        grow(sim)
        assert writer.call(lambda: sim.send([b"new"], 3)) is None
        assert writer.call(sim.session.flush) is None
        assert sim.cluster.logs["t", 3].values() == [b"new"]
        sim.check_accounting()


def test_a_partition_that_is_not_there_is_refused_after_one_more_look(
    pool: ThreadPoolExecutor,
) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS})) as sim:
        sim.clock.advance(5)
        before, began = asked(sim), sim.clock.monotonic()
        error = Writer(sim, pool).call(lambda: sim.send([b"a"], 7))
        assert isinstance(error, ColumnError)
        assert "the topic has partitions 0 to 1" in str(error)
        assert asked(sim) == before + 1
        assert sim.clock.monotonic() - began < 10  # max.block.ms is a minute


def test_poison_rows_don_t_have_the_brokers_asked_all_the_time(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS}), TOLERANT) as sim:
        sim.clock.advance(5)
        before, writer = asked(sim), Writer(sim, pool)
        for _ in range(20):
            assert writer.call(lambda: sim.send([b"a"], 7)) is None
        assert sim.clock.monotonic() < 106
        assert asked(sim) == before + 1
        sim.clock.advance(5)
        grow(sim)
        assert writer.call(lambda: sim.send([b"new"], 3)) is None
        assert writer.call(sim.session.flush) is None
        assert sim.cluster.logs["t", 3].values() == [b"new"]
