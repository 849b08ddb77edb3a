"""buffer.memory: charges, releases and waits."""

import pytest

from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.producer.buffer.batch import Charge
from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
from spark_kafka_sink.producer.buffer.events import ProducerEvents
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.report.metrics.metrics_recorder import MetricsRecorder
from tests.support.clock import ManualClock
from tests.support.harness.offline import config

LIMIT = 10_000


class PoolHarness:
    """A pool whose clock advances when the writer waits."""

    def __init__(self) -> None:
        self.clock = ManualClock(seconds=1.0)
        self.wakes = 0
        self.state = SessionState(self.clock, self._wake, lambda: self.clock.advance(0.5))
        settings = config(buffer_memory=LIMIT, max_block_ms=1_000, batch_size=1_000)
        self.pool = BufferPool(settings, self.state, ProducerEvents())

    def _wake(self) -> None:
        self.wakes += 1

    def meters(self) -> MetricsRecorder:
        meters = MetricsRecorder()
        self.pool.measure(meters)
        return meters


@pytest.fixture
def bench() -> PoolHarness:
    return PoolHarness()


def test_empty_pool_accepts_more_than_its_size(bench: PoolHarness) -> None:
    assert bench.pool.fits(5 * LIMIT)
    bench.pool.reserve(5 * LIMIT)
    assert not bench.pool.fits(1)


def test_full_pool_waits_at_most_max_block_ms(bench: PoolHarness) -> None:
    bench.pool.reserve(9_000)
    with pytest.raises(BufferTimeoutError, match="9,000 of 10,000 bytes"):
        bench.pool.reserve(2_000)
    assert (bench.pool.used, bench.wakes) == (9_000, 1)
    meters = bench.meters()
    assert (meters.buffer_waits, meters.buffer_wait, meters.buffer_peak) == (1, 1.0, 9_000)
    assert bench.pool.writer_waiting_since is None


def test_waiting_since_is_set_during_the_wait(bench: PoolHarness) -> None:
    seen: list[float | None] = []

    def done() -> bool:
        seen.append(bench.pool.writer_waiting_since)
        return True

    assert bench.pool.wait_for_room(done, 1)
    assert seen == [1.0]
    assert bench.pool.writer_waiting_since is None


def test_shared_charge_is_released_with_its_last_holder(bench: PoolHarness) -> None:
    shared, own = Charge(600, holders=2), Charge(50)
    bench.pool.charge(650)
    first, second = [shared, own], [shared]
    bench.pool.release(first)
    assert (bench.pool.used, first) == (600, [])
    bench.pool.release(second)
    assert bench.pool.used == 0
    assert bench.meters().buffer_peak == 650
