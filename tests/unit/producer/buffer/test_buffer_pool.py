"""buffer.memory: charges, releases and waits."""

import pytest

from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.producer.buffer.batch import Charge
from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.reporting.producer_events import ProducerEvents
from tests.support.clock import ManualClock
from tests.support.harness.offline import config

LIMIT = 10_000


class PoolHarness:
    """A pool whose clock advances when the writer waits."""

    def __init__(self) -> None:
        self.clock = ManualClock(seconds=1.0)
        self.wakes = 0
        self.state = SessionState(self.clock, self._wake, lambda _: self.clock.advance(0.5))
        settings = config(buffer_memory=LIMIT, max_block_ms=1_000, batch_size=1_000)
        self.pool = BufferPool(settings, self.state, ProducerEvents())

    def _wake(self) -> None:
        self.wakes += 1


@pytest.fixture
def harness() -> PoolHarness:
    return PoolHarness()


def test_empty_pool_accepts_more_than_its_size(harness: PoolHarness) -> None:
    assert harness.pool.fits(5 * LIMIT)
    harness.pool.reserve(5 * LIMIT)
    assert not harness.pool.fits(1)


def test_full_pool_waits_at_most_max_block_ms(harness: PoolHarness) -> None:
    harness.pool.reserve(9_000)
    with pytest.raises(BufferTimeoutError, match="9,000 of 10,000 bytes"):
        harness.pool.reserve(2_000)
    assert (harness.pool.used, harness.wakes) == (9_000, 1)
    assert harness.pool.usage() == (1, 1.0, 9_000)
    assert harness.pool.writer_waiting_since is None


def test_waiting_since_is_set_during_the_wait(harness: PoolHarness) -> None:
    seen: list[float | None] = []

    def done() -> bool:
        seen.append(harness.pool.writer_waiting_since)
        return True

    assert harness.pool.wait_for_room(done, 1)
    assert seen == [1.0]
    assert harness.pool.writer_waiting_since is None


def test_shared_charge_is_released_with_its_last_holder(harness: PoolHarness) -> None:
    shared, own = Charge(600, holders=2), Charge(50)
    harness.pool.charge(650)
    first, second = [shared, own], [shared]
    harness.pool.release(first)
    assert (harness.pool.used, first) == (600, [])
    harness.pool.release(second)
    assert harness.pool.used == 0
    assert harness.pool.usage().peak == 650
