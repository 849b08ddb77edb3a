"""Keyless rows are appended before the topic's metadata is known; other rows wait for it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ColumnError,
    UnknownTopicError,
)
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.world import World, world
from tests.support.harness.writer_thread import WatchedClock, Writer, _is_done
from tests.unit.producer.rejections import tolerant

VALUES = [b"%06d" % number + b"." * 270 for number in range(30)]
DENIED = ErrorCode.topic_authorization_failed

TOLERANT = tolerant(None)
PARTITIONS = 2


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def keyless(values: list[bytes], *topics: str) -> Rows:
    """Create rows without a key and without a partition."""
    return Rows(
        columns=Columns(
            value=pa.array(values, pa.binary()), key=pa.nulls(len(values), pa.binary())
        ),
        topics=topics or ("t",),
        partition=pa.nulls(len(values), pa.int32()),
    )


def sizes(sim: World) -> list[int]:
    """Return the number of records of each unsent batch, in the order of their creation."""
    opened = [batch for _, batch in sim.buffer.accumulator.open_batches()]
    batches = sim.buffer.queues.batches() + opened
    return [batch.records for batch in sorted(batches, key=lambda batch: batch.label)]


def test_keyless_rows_are_appended_immediately(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster()) as sim:
        writer = Writer(sim, pool)
        writer.call_alone(lambda: sim.send(VALUES, None))
        writer.call_alone(lambda: sim.session.append(keyless(VALUES)))
        sim.appended += len(VALUES)
        laid_out = sizes(sim)
        sim.cluster.create("t", 4)
        assert writer.call(sim.session.flush) is None
        assert sum(log.end for log in sim.cluster.logs.values()) == 60
        sim.check_accounting()
    with world(FakeCluster(topics={"t": 4})) as sim:
        sim.send(VALUES, None)
        sim.session.append(keyless(VALUES))
        assert sizes(sim) == laid_out


def test_first_metadata_request_is_not_delayed(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(topics={"known": 1})) as sim:
        sim.deliver([b"first"], topic="known")
        sim.cluster.create("t", 1)
        before = len(sim.cluster.requests)
        Writer(sim, pool).call_alone(lambda: sim.send([b"a"], None))
        sim.step()
        assert (1, ApiKey.METADATA) in sim.cluster.requests[before:]


def test_rows_with_key_or_partition_wait_for_partition_count(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster()) as sim:
        writer = Writer(sim, pool)
        writer.call_alone(lambda: sim.send(VALUES, None))
        first = pool.submit(sim.send, VALUES, 0)
        sim.steps(20)
        assert not first.done()
        sim.cluster.create("t", 1)
        sim.run(lambda: _is_done(first))
        assert writer.call(sim.session.flush) is None
        assert sim.cluster.logs["t", 0].values() == VALUES + VALUES


@pytest.mark.parametrize("later", ["flush", "append"])
def test_missing_topic_is_reported_in_time(pool: ThreadPoolExecutor, later: str) -> None:
    clock = WatchedClock()
    with world(FakeCluster(), clock=clock, max_block_ms=3_000) as sim:
        writer = Writer(sim, pool)
        writer.call_alone(lambda: sim.send(VALUES, None))
        began = sim.clock.monotonic()
        if later == "append":
            sim.steps(61, 0.05)
            error = writer.call_in_step(lambda: sim.send(VALUES, None), clock, 0.05)
        else:
            error = writer.call_in_step(sim.session.flush, clock, 0.05)
        assert isinstance(error, UnknownTopicError)
        assert "not available within max.block.ms = 3000" in str(error)
        assert "create the topic: topic.create=true, or kafka-topics" in str(error)
        assert (error.topic, error.kafka_error) == ("t", "UNKNOWN_TOPIC_OR_PARTITION")
        assert 3 <= sim.clock.monotonic() - began < 3.2


@pytest.mark.parametrize("partition", [None, 0])
def test_missing_topic_is_reported_in_time_despite_throttling(
    pool: ThreadPoolExecutor, partition: int | None
) -> None:
    """Repeated throttling must not extend max.block.ms."""
    with world(FakeCluster(), load_metadata=False, max_block_ms=3_000) as sim:
        sim.cluster.throttle_ms = 1_000
        began = sim.clock.monotonic()

        def write() -> None:
            sim.send(VALUES, partition)
            sim.session.flush()

        error = Writer(sim, pool).call(write, 0.05)
        assert isinstance(error, UnknownTopicError)
        assert 3 <= sim.clock.monotonic() - began < 6


@pytest.mark.parametrize("names", [("t", "denied"), ("denied", "t")])
@pytest.mark.parametrize("later", ["flush", "append"])
def test_error_names_the_topic_that_ends_the_wait(
    pool: ThreadPoolExecutor, names: tuple[str, str], later: str
) -> None:
    """The other topic has no error yet, because brokers may still create it."""
    with world(FakeCluster()) as sim:
        sim.cluster.metadata_errors["denied"] = DENIED
        writer = Writer(sim, pool)
        for name in names:
            writer.call_alone(lambda: sim.session.append(keyless(VALUES, name)))  # noqa: B023 - called now
        sim.steps(10)
        keyed = (lambda: sim.send(VALUES, None)) if later == "append" else sim.session.flush
        error = writer.call(keyed)
        assert isinstance(error, AuthorizationError)
        assert error.topic == "denied"


def test_error_names_brokers_if_none_is_reachable(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(), max_block_ms=3_000) as sim:
        sim.cluster.stop(1)
        writer = Writer(sim, pool)
        writer.call_alone(lambda: sim.send(VALUES, None))
        error = writer.call(sim.session.flush, 0.05)
        assert isinstance(error, BrokerUnavailableError)
        assert "no broker responded within max.block.ms = 3000" in str(error)
        assert "127.0.0.1:40000" in str(error)


def test_full_buffer_waits_for_missing_topic_and_error_names_it(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(), max_block_ms=3_000, buffer_memory=20_000) as sim:
        writer = Writer(sim, pool)
        for _ in range(2):
            writer.call_alone(lambda: sim.send(VALUES, None))
        error = writer.call(lambda: sim.send(VALUES * 3, None), 0.05)
        assert isinstance(error, UnknownTopicError)


def test_missing_topic_is_reported_although_other_topics_exist(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(topics={"known": 2}), max_block_ms=3_000) as sim:
        writer = Writer(sim, pool)
        writer.call_alone(lambda: sim.send(VALUES, None))
        assert writer.call(lambda: sim.send(VALUES, None, "known")) is None
        error = writer.call(sim.session.flush, 0.05)
        assert isinstance(error, UnknownTopicError)
        assert error.topic == "t"


def add_partitions(sim: World) -> None:
    for partition in range(PARTITIONS, 2 * PARTITIONS):
        sim.cluster.logs["t", partition] = FakeLog(leader=1)


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


def test_missing_partition_is_rejected_after_a_metadata_refresh(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS})) as sim:
        sim.clock.advance(5)
        before, began = sim.cluster.count(ApiKey.METADATA), sim.clock.monotonic()
        error = Writer(sim, pool).call(lambda: sim.send([b"a"], 7))
        assert isinstance(error, ColumnError)
        assert "the topic has partitions 0 to 1" in str(error)
        assert sim.cluster.count(ApiKey.METADATA) == before + 1
        assert sim.clock.monotonic() - began < 10  # max.block.ms is 60 s


def test_bad_rows_do_not_cause_metadata_requests_continuously(pool: ThreadPoolExecutor) -> None:
    with world(FakeCluster(topics={"t": PARTITIONS}), TOLERANT) as sim:
        sim.clock.advance(5)
        before, writer = sim.cluster.count(ApiKey.METADATA), Writer(sim, pool)
        for _ in range(20):
            assert writer.call(lambda: sim.send([b"a"], 7)) is None
        assert sim.clock.monotonic() < 106
        assert sim.cluster.count(ApiKey.METADATA) == before + 1
        sim.clock.advance(5)
        add_partitions(sim)
        assert writer.call(lambda: sim.send([b"new"], 3)) is None
        assert writer.call(sim.session.flush) is None
        assert sim.cluster.logs["t", 3].values() == [b"new"]
