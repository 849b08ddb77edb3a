"""Buffer shares of a stalled broker's partitions, progress of the others, and open breakers."""

import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import BufferTimeoutError, DeliveryError
from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds, ThrottlingConfig
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.append.chunk import Chunk, RoutedChunk
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.limits.breaker import BatchOutcome
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import World
from tests.unit.producer.stalled_broker import (
    BUFFER,
    STALLED,
    bytes_of_stalled,
    held_now,
    numbered_rows,
    stalled_cluster,
)

SHARE = BUFFER // 2


class Writer:
    """Append in a separate thread while the test advances the clock."""

    def __init__(self, sim: World, chunks: list[Rows]) -> None:
        self.sim = sim
        self.error: BaseException | None = None
        self.appended = 0
        self._chunks = chunks
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            for chunk in self._chunks:
                self.sim.session.append(chunk)
                self.appended += 1
                self.sim.appended += len(chunk)
        except BaseException as error:  # noqa: BLE001
            self.error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def step_until(self, done: Callable[[], bool], seconds: float = 20.0) -> bool:
        """Step the sender until `done` returns True; return False after `seconds`."""
        if not self._thread.ident:
            self._thread.start()
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                return False
            self.sim.step()
            self._thread.join(0.0005)
        return True


def unkeyed(rows: int) -> Rows:
    return Rows(columns=Columns(value=pa.array([b"." * 90] * rows, pa.binary())), topics=("t",))


def unassigned_records(sim: World) -> list[ProducerBatch]:
    """Return the records without a partition, including those in open batches."""
    buffer, unassigned = sim.buffer, TopicPartition("t", UNASSIGNED)
    with buffer.state.lock:
        waiting = buffer.queues.batches_of(lambda queue: queue == unassigned)
        opened = buffer.accumulator.open_batches()
        return waiting + [batch for partition, batch in opened if partition == unassigned]


def in_flight(sim: World, *partitions: int) -> int:
    """Return the number of records sent to these partitions and not yet acknowledged."""
    mine = [
        partition
        for partition in sim.sender.partitions
        if partition.topic_partition.partition in partitions
    ]
    return sum(batch.records for state in mine for batch in state.in_flight)


def logged(cluster: FakeCluster, *partitions: int) -> int:
    return sum(cluster.logs["t", partition].end for partition in partitions)


@pytest.mark.parametrize("batch_size", [1_000, 8_000])
def test_keyless_rows_do_not_wait_for_stalled_broker(batch_size: int) -> None:
    with stalled_cluster(batch_size=batch_size) as (sim, cluster):
        rows = 10 * BUFFER // 100
        writer = Writer(sim, [unkeyed(40)] * (rows // 40))
        assert writer.step_until(lambda: writer.done)
        assert writer.error is None
        assert bytes_of_stalled(sim) <= SHARE
        sim.run(lambda: unassigned_records(sim) == [])
        # The stalled broker has only the requests in flight.
        blocked = in_flight(sim, 1, 3)
        assert 0 < blocked <= 2 * sim.config.max_in_flight * batch_size // 90
        assert logged(cluster, 0, 2) >= rows - blocked
        assert not sim.buffer.queues.batches()
        cluster.resume()
        sim.finish()
        sim.check_accounting()
        assert sim.statuses() == {DeliveryStatus.PERSISTED: sim.appended}


def test_rows_of_stalled_partition_wait_after_their_share_while_others_continue() -> None:
    with stalled_cluster() as (sim, cluster):
        chunk, count = 40, 200
        writer = Writer(sim, [numbered_rows(40 * number, chunk) for number in range(count)])
        most = blocked_steps = 0

        def stays_blocked() -> bool:
            """Return True after 400 steps, two seconds, in which the writer has waited and other
            partitions had no data.
            """
            nonlocal most, blocked_steps
            most = max(most, bytes_of_stalled(sim))
            waits = sim.buffer.pool.writer_waiting_since is not None
            is_blocked = waits and not any(held_now(sim)[::2])
            blocked_steps = blocked_steps + 1 if is_blocked else 0
            return blocked_steps == 400

        assert writer.step_until(stays_blocked)
        assert SHARE * 3 // 4 < most <= SHARE
        # Rows of the other partitions in the blocked chunk have been delivered.
        assert logged(cluster, 0, 2) - 2 == (writer.appended + 1) * chunk // 2
        assert sim.buffer.pool.used <= BUFFER
        cluster.resume()
        assert writer.step_until(lambda: writer.done)
        assert writer.error is None
        sim.finish()
        sim.check_accounting()
        for partition in range(4):
            values = [int(v[:6]) for v in cluster.logs["t", partition].values()[1:] if v]
            assert values == list(range(partition, chunk * count, 4))


def test_wait_for_share_ends_after_max_block_ms_and_error_names_partition() -> None:
    with stalled_cluster(max_block_ms=2_000) as (sim, _):
        writer = Writer(sim, [numbered_rows(0, 40)] * 1_000)
        assert writer.step_until(lambda: writer.done)
        assert isinstance(writer.error, BufferTimeoutError)
        text = str(writer.error)
        assert "no buffer space for the partition or its broker within max.block.ms = 2000" in text
        assert f"limits a broker to {SHARE:,} bytes and a partition to half of that" in text
        assert writer.error.partition in {1, 3}
        assert writer.error.broker == str(sim.client.metadata.cluster.nodes[STALLED])
        assert sim.buffer.pool.used < BUFFER


def test_share_that_is_freed_at_the_deadline_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with stalled_cluster() as (sim, _):
        blocked = {"t": [0, 1, 2, 3]}
        monkeypatch.setattr(sim.buffer.quotas, "partitions_over_quota", lambda *_: blocked)
        monkeypatch.setattr(sim.buffer.pool, "wait_for_room", lambda *_: blocked.clear())
        sim.send([b"late"], 0)
        assert sim.buffer.state.incomplete_batches == 1


def test_without_shares_stalled_broker_takes_the_whole_buffer() -> None:
    no_quotas = SessionSettings(throttling=ThrottlingConfig(buffer_share=100))
    with stalled_cluster(no_quotas) as (sim, _):
        writer = Writer(sim, [numbered_rows(0, 40)] * 1_000)
        assert writer.step_until(lambda: bytes_of_stalled(sim) > SHARE)
        sim.buffer.state.end(DeliveryError("enough"))
        assert writer.step_until(lambda: writer.done)


def routed(sim: World, rows: Rows) -> RoutedChunk:
    info = sim.client.metadata.cluster.topics["t"]
    sizes = np.full(len(rows), 100, np.int64)
    route = sim.session.partitioner.assign(rows, (info,))
    blocked_targets = sim.session.admission.blocked_targets_of(Chunk(rows, (info,), sizes))
    return RoutedChunk(rows, (info,), sizes, blocked_targets, route)


def broken_rows(sim: World, rows: Rows) -> list[bool] | None:
    chunk = routed(sim, rows)
    mask = chunk.route.rows_of(chunk.blocked_targets.breaker_open)
    return None if mask is None else mask.tolist()


def guarded(breaker: BreakerConfig) -> SessionSettings:
    return SessionSettings(throttling=ThrottlingConfig(breaker=breaker))


def test_rows_of_partition_with_open_breaker_are_known() -> None:
    with stalled_cluster(guarded(BreakerConfig(target=Thresholds(failures=1)))) as (sim, _):
        info = sim.client.metadata.cluster.topics["t"]
        rows = numbered_rows(0, 8)
        assert broken_rows(sim, rows) is None
        breakers = sim.buffer.breakers
        breakers.record(TopicPartition("t", 3), 9, BatchOutcome.FAILED, "X", sim.clock.monotonic())
        assert broken_rows(sim, rows) == [n % 4 == 3 for n in range(8)]
        breakers.record(TopicPartition("t", 0), 1, BatchOutcome.FAILED, "X", sim.clock.monotonic())
        assert broken_rows(sim, rows) == [n % 4 != 1 for n in range(8)]
        sim.clock.advance(60.0)
        assert broken_rows(sim, rows) is None
        assert sim.session.admission.find_open_breakers(info) == frozenset()


def test_keyless_rows_are_rejected_only_if_all_partitions_have_open_breakers() -> None:
    with stalled_cluster(guarded(BreakerConfig(target=Thresholds(failures=1)))) as (sim, _):
        rows = unkeyed(3)
        for partition in range(4):
            assert broken_rows(sim, rows) is None
            topic_partition, now = TopicPartition("t", partition), sim.clock.monotonic()
            sim.buffer.breakers.record(topic_partition, 9, BatchOutcome.FAILED, "X", now)
        assert broken_rows(sim, rows) == [True] * 3
