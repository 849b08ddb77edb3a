"""Memory, waits and linger.ms of the accumulator that the writer and the sender share."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.common.close_reason import CloseReason
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.producer.buffer.batch import Charge, EncodedSlice
from tests.support.waiting import wait_until
from tests.unit.producer.buffer.accumulator_harness import PARTITIONS, AccumulatorHarness

SOON = 5.0


@pytest.fixture
def harness() -> AccumulatorHarness:
    return AccumulatorHarness()


@pytest.fixture
def writer() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_unused_reservation_is_returned(harness: AccumulatorHarness) -> None:
    harness.memory.reserve(700)
    harness.accumulator.begin_layout()
    harness.accumulator.cancel_layout(700)
    assert harness.memory.used == 0
    harness.clock.advance(1.0)
    harness.put({0: 10})
    harness.clock.advance(1.0)
    harness.accumulator.close_due(harness.clock.monotonic())
    assert len(harness.queued()) == 1


def test_batches_close_after_linger_ms(harness: AccumulatorHarness) -> None:
    harness.put({0: 100})
    assert harness.accumulator.seconds_until_due(1.0) == pytest.approx(0.099)
    harness.accumulator.close_due(1.098)
    assert harness.queued() == []
    harness.clock.advance(0.06)
    harness.put({1: 100})
    harness.accumulator.close_due(1.1)
    assert [batch.topic_partition for batch in harness.queued()] == [PARTITIONS[0]]
    assert harness.accumulator.seconds_until_due(1.1) == pytest.approx(0.059)
    harness.accumulator.close_due(1.161)
    assert len(harness.queued()) == 2


def test_sender_is_woken_only_for_the_first_open_batch() -> None:
    harness = AccumulatorHarness(linger_ms=4)
    for expected in (1, 1):
        harness.put({0: 10}, opens=False)
        assert harness.wakes == expected
    harness.accumulator.begin_layout()
    harness.accumulator.close_due(1.0)  # none is due yet
    harness.accumulator.append([], Charge(0, holders=0), 0)
    assert harness.wakes == 1


@pytest.mark.parametrize(("linger_ms", "wakes"), [(0, 1), (4, 1), (5, 0), (1_000, 0)])
def test_sender_is_woken_only_if_it_would_miss_the_deadline_of_an_open_batch(
    linger_ms: int, wakes: int
) -> None:
    harness = AccumulatorHarness(linger_ms=linger_ms)
    assert harness.accumulator.seconds_until_due(1.0) <= (1.0 if wakes else linger_ms / 1000)
    harness.put({0: 100})
    assert harness.wakes == wakes


def test_batch_due_during_append_is_closed_after_it(harness: AccumulatorHarness) -> None:
    harness.put({0: 100})
    wakes = harness.wakes
    harness.put({1: 100})
    assert harness.wakes == wakes  # the sender's timer is already set
    harness.accumulator.begin_layout()
    harness.accumulator.close_due(1.1)
    assert harness.queued() == []
    harness.accumulator.append([], Charge(0, holders=0), 0)
    assert harness.wakes == wakes + 1
    harness.accumulator.begin_layout()
    harness.accumulator.append([], Charge(0, holders=0), 0)
    assert harness.wakes == wakes + 1  # already set
    harness.accumulator.close_due(1.1)
    assert len(harness.queued()) == 2


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_linger_starts_at_append_not_at_encoding(start: float) -> None:
    harness = AccumulatorHarness(start)
    harness.accumulator.begin_layout()
    harness.clock.advance(0.04)
    harness.accumulator.append(
        [EncodedSlice(PARTITIONS[0], b"1234", 1, True, 5, 5)], Charge(4, holders=0), 0
    )
    ((_, batch),) = harness.accumulator.open_batches()
    assert batch.created_at == start
    assert harness.accumulator.seconds_until_due(start + 0.04) == pytest.approx(0.059)


@pytest.mark.parametrize(
    ("linger_ms", "closes_after"), [(0, 0.0), (1, 0.00075), (2, 0.0015), (5, 0.004), (50, 0.049)]
)
def test_batch_is_sent_early_rather_than_late(linger_ms: int, closes_after: float) -> None:
    """The sender's timer has millisecond resolution and rounds up."""
    harness = AccumulatorHarness(linger_ms=linger_ms)
    harness.put({0: 100})
    created = harness.clock.monotonic()
    assert harness.accumulator.seconds_until_due(created) == pytest.approx(closes_after)
    harness.accumulator.close_due(created + closes_after - 0.0001)
    assert harness.queued() == []
    harness.accumulator.close_due(created + closes_after + 0.0001)
    assert len(harness.queued()) == 1


def test_open_batches_leave_half_of_the_buffer_to_the_writer(harness: AccumulatorHarness) -> None:
    for partition in range(5):
        harness.put({partition: 900})
        harness.accumulator.close_due(1.0)
    assert harness.queued() == []
    wakes = harness.wakes
    for partition in range(5, 7):
        harness.put({partition: 900})
    assert harness.wakes > wakes
    harness.accumulator.close_due(1.0)
    assert [batch.topic_partition for batch in harness.queued()] == PARTITIONS[:5]
    assert {batch.close_reason for batch in harness.queued()} == {CloseReason.MEMORY}


@pytest.mark.parametrize(("more", "left"), [(0, 10), (1, 4)])
def test_open_batches_may_use_half_of_the_buffer_then_a_quarter(
    harness: AccumulatorHarness, more: int, left: int
) -> None:
    for partition in range(10):
        harness.put({partition: 500})
    if more:
        harness.put({9: more}, opens=False)
    harness.accumulator.close_due(1.0)
    assert len(harness.accumulator.open_batches()) == left


def test_closed_batches_beyond_half_of_the_buffer_close_nothing(
    harness: AccumulatorHarness,
) -> None:
    harness.put({10: 1_000})
    closed = harness.queued()
    for partition in range(10):
        harness.put({partition: 500})
    harness.accumulator.close_due(1.0)
    assert harness.memory.used == 6_000
    assert harness.queued() == closed


def test_open_batches_stay_open_if_closed_ones_fill_the_buffer(harness: AccumulatorHarness) -> None:
    for partition in range(4):
        harness.put({partition: 1_000})
    closed = harness.queued()
    for partition in range(10, 14):
        harness.put({partition: 900})
    harness.accumulator.close_due(1.0)
    assert harness.memory.used > harness.memory.limit / 2
    assert harness.queued() == closed
    assert len(harness.accumulator.open_batches()) == 4


def test_open_batch_stays_open_while_a_layout_uses_it(harness: AccumulatorHarness) -> None:
    harness.put({0: 100})
    harness.accumulator.begin_layout()
    harness.accumulator.close_due(50.0)
    assert harness.queued() == []
    known = harness.accumulator.open_batch(PARTITIONS[0])
    assert known is not None
    assert (known.records, known.size) == (1, 161)
    harness.accumulator.cancel_layout(0)
    harness.accumulator.close_due(50.0)
    assert len(harness.queued()) == 1


def test_reserve_waits_for_memory_and_is_woken(writer: ThreadPoolExecutor) -> None:
    harness = AccumulatorHarness(max_block_ms=60_000, batch_size=9_000, linger_ms=60_000)
    harness.put({0: 4_500, 1: 4_500})
    waiting = writer.submit(harness.memory.reserve, 5_000)
    wait_until(lambda: harness.wakes >= 2)
    with pytest.raises(TimeoutError):
        waiting.result(0.02)
    # Open batches are closed early, because the writer waits for their memory.
    harness.accumulator.close_due(harness.clock.monotonic())
    first, second = harness.queued()
    assert harness.queued() == [first, second]
    harness.accumulator.complete(first)
    with pytest.raises(TimeoutError):
        waiting.result(0.02)
    harness.clock.advance(0.04)
    harness.accumulator.complete(second)
    waiting.result(SOON)
    assert harness.memory.used == 5_000
    usage = harness.memory.usage()
    assert (usage.waits, round(usage.wait, 6)) == (1, 0.04)


@pytest.mark.parametrize("wait", ["reserve", "flush", "topics"])
def test_end_of_sender_wakes_the_writer(wait: str, writer: ThreadPoolExecutor) -> None:
    harness = AccumulatorHarness(max_block_ms=600_000)
    accumulator = harness.accumulator
    harness.put({0: 9_500})
    work = {
        "reserve": lambda: harness.memory.reserve(1_000),
        "flush": accumulator.flush,
        "topics": lambda: harness.state.wait_for(lambda: False, 600.0),
    }[wait]
    waiting = writer.submit(work)
    with pytest.raises(TimeoutError):
        waiting.result(0.03)
    error = DeliveryError("the sender is gone")
    harness.state.end(error)
    assert waiting.exception(SOON) is error
    with pytest.raises(DeliveryError):
        harness.memory.reserve(1)


def test_append_after_the_end_raises_and_appends_nothing(harness: AccumulatorHarness) -> None:
    harness.memory.reserve(100)
    harness.accumulator.begin_layout()
    harness.state.end(DeliveryError("gone"))
    piece = EncodedSlice(
        PARTITIONS[0], b"x" * 50, 1, opens_batch=True, base_timestamp=0, max_timestamp=0
    )
    with pytest.raises(DeliveryError):
        harness.accumulator.append([piece], Charge(50, holders=0), 100)
    harness.accumulator.cancel_layout(100)
    assert (harness.memory.used, harness.state.incomplete_batches) == (0, 0)


def test_flush_waits_for_appended_batches(writer: ThreadPoolExecutor) -> None:
    harness = AccumulatorHarness()
    harness.put({0: 100, 1: 100})
    flushing = writer.submit(harness.accumulator.flush)
    wait_until(lambda: len(harness.queued()) == 2)
    first, second = harness.queued()
    harness.accumulator.complete(first)
    with pytest.raises(TimeoutError):
        flushing.result(0.02)
    harness.accumulator.complete(second)
    flushing.result(SOON)


def test_concurrent_reservations_and_completions_keep_accounting_exact(
    harness: AccumulatorHarness,
) -> None:
    """The codec and sender threads complete batches while the writer appends."""
    stop = threading.Event()

    def complete() -> None:
        while not stop.is_set():
            harness.complete_all()

    completer = threading.Thread(target=complete)
    completer.start()
    for _ in range(300):
        harness.put({0: 200, 1: 30, 2: 400})
    stop.set()
    completer.join(SOON)
    harness.complete_all()
    assert (harness.memory.used, harness.state.incomplete_batches) == (0, 0)
