"""buffer.memory: charged, shared by holders, freed, waited for."""

from __future__ import annotations

import pytest

from spark_kafka_sink.common.clock import ManualClock
from spark_kafka_sink.common.errors import BufferTimeoutError, DeliveryError
from spark_kafka_sink.metrics.recorder import MetricsRecorder
from spark_kafka_sink.producer.buffer.batch import Charge
from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
from spark_kafka_sink.producer.buffer.events import ProducerEvents
from spark_kafka_sink.producer.buffer.session_state import SessionState
from tests.support.harness.offline import config

LIMIT = 10_000


class Bench:
    """A pool whose clock moves on whenever the writer has waited for a while."""

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
def bench() -> Bench:
    return Bench()


def test_what_fits_is_charged_without_a_wait(bench: Bench) -> None:
    bench.pool.reserve(LIMIT)
    assert bench.pool.used == LIMIT
    assert (bench.wakes, bench.meters().buffer_waits) == (0, 0)


def test_an_empty_pool_takes_what_is_larger_than_itself(bench: Bench) -> None:
    assert bench.pool.fits(5 * LIMIT)
    bench.pool.reserve(5 * LIMIT)
    assert not bench.pool.fits(1)


def test_a_full_pool_is_waited_for_at_most_max_block_ms(bench: Bench) -> None:
    bench.pool.reserve(9_000)
    with pytest.raises(BufferTimeoutError, match="9,000 of 10,000 bytes"):
        bench.pool.reserve(2_000)
    assert (bench.pool.used, bench.wakes) == (9_000, 1)
    meters = bench.meters()
    assert (meters.buffer_waits, meters.buffer_wait, meters.buffer_peak) == (1, 1.0, 9_000)
    assert bench.pool.waiting_since is None


def test_the_wait_is_seen_while_it_lasts(bench: Bench) -> None:
    seen: list[float | None] = []

    def done() -> bool:
        seen.append(bench.pool.waiting_since)
        return True

    assert bench.pool.wait_for_room(done, 1)
    assert seen == [1.0]
    assert bench.pool.waiting_since is None


def test_nothing_is_reserved_in_a_session_that_has_failed(bench: Bench) -> None:
    bench.state.fail(DeliveryError("gone"))
    with pytest.raises(DeliveryError, match="gone"):
        bench.pool.reserve(1)
    assert bench.pool.used == 0


def test_a_charge_is_freed_when_its_last_holder_releases_it(bench: Bench) -> None:
    shared, own = Charge(600, holders=2), Charge(50)
    bench.pool.charge(650)
    first, second = [shared, own], [shared]
    bench.pool.release(first)
    assert (bench.pool.used, first) == (600, [])
    bench.pool.release(second)
    assert bench.pool.used == 0
    assert bench.meters().buffer_peak == 650
