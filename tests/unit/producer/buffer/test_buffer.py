"""buffer.memory: charges, releases and waits; the attempts of a batch and its pieces."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import BufferTimeoutError, DeliveryError
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.batch import Charge, ProducerBatch
from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
from spark_kafka_sink.producer.buffer.events import ProducerEvents
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.report.metrics.metrics_recorder import MetricsRecorder
from tests.support.clock import ManualClock
from tests.support.harness.offline import config

LIMIT = 10_000

SOON = 5.0


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


def nothing() -> None: ...


@pytest.fixture
def state() -> SessionState:
    return SessionState(SystemClock(), nothing, nothing)


@pytest.fixture
def writer() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_wait_ends_on_notification(state: SessionState, writer: ThreadPoolExecutor) -> None:
    waits, done = Event(), Event()

    def is_done() -> bool:
        waits.set()
        return done.is_set()

    waiting = writer.submit(state.wait_for, is_done, SOON)
    assert waits.wait(SOON)
    done.set()
    state.notify()
    assert waiting.result(SOON)


def test_first_error_ends_all_waits(state: SessionState, writer: ThreadPoolExecutor) -> None:
    first = DeliveryError("first")
    waiting = writer.submit(state.wait_for, lambda: False, SOON)
    state.fail(first)
    state.fail(DeliveryError("second"))
    assert waiting.exception(SOON) is first
    assert state.error is first
    for call in (state.raise_error, lambda: state.wait_for(lambda: True, SOON)):
        with pytest.raises(DeliveryError) as caught:
            call()
        assert caught.value is first


def test_flush_fails_if_no_batch_completes(state: SessionState, writer: ThreadPoolExecutor) -> None:
    state.add_incomplete(3)
    started = time.monotonic()
    waiting = writer.submit(state.wait_until_complete, 0.4)
    time.sleep(0.2)  # half of the time without progress
    state.complete()
    state.add_throttle_pause(200)
    caught = waiting.exception(SOON)
    assert isinstance(caught, DeliveryError)
    assert "2 batches made no progress" in str(caught)
    assert time.monotonic() - started > 0.75
    assert state.error is caught


def test_failed_batch_is_not_a_success(state: SessionState, writer: ThreadPoolExecutor) -> None:
    """Between the failure of the last batch and the session's error, nothing is incomplete."""
    state.add_incomplete(1)
    waiting = writer.submit(state.wait_until_complete, SOON)
    state.expect_error()
    state.complete()
    with pytest.raises(TimeoutError):
        waiting.result(0.02)
    state.fail(DeliveryError("failed"))
    assert isinstance(waiting.exception(SOON), DeliveryError)


def new_batch() -> ProducerBatch:
    return ProducerBatch(TopicPartition("t", 0), created_at=1.0, base_timestamp=0, max_timestamp=0)


def test_first_attempt_begins_the_delivery_time() -> None:
    sent = new_batch()
    sent.record_attempt(now=3.0, delivery_start=2.0, topic_id=None)
    sent.record_attempt(now=5.0, delivery_start=4.0, topic_id=None)
    assert (sent.attempts, sent.sent_at, sent.delivery_start) == (2, 5.0, 2.0)


def test_lost_response_keeps_the_code_of_the_latest_rejection() -> None:
    sent = new_batch()
    sent.record_retry(rejection_code=6, delivery_start=2.0)
    sent.record_retry(rejection_code=0, delivery_start=3.0)
    assert (sent.is_retried, sent.rejection_code, sent.delivery_start) == (True, 6, 3.0)


def test_pieces_are_in_order_before_later_batches() -> None:
    whole, first, second = new_batch(), new_batch(), new_batch()
    whole.label, whole.order = (7,), (3,)
    first.take_place_of(whole, 0)
    second.take_place_of(whole, 1)
    assert whole.order < first.order < second.order < (4,)
    assert (first.name, second.name) == ("7.0", "7.1")
