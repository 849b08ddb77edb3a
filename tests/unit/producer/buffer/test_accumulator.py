"""Memory, waits and linger.ms of the accumulator that the writer and the sender share."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.producer.buffer.batch import Charge, EncodedSlice
from spark_kafka_sink.report.metrics.metrics_recorder import CloseReason, MetricsRecorder
from tests.support.clock import ManualClock
from tests.support.waiting import wait_until
from tests.unit.producer.buffer.bench import PARTITIONS, AccumulatorHarness

SOON = 5.0


@pytest.fixture
def bench() -> AccumulatorHarness:
    return AccumulatorHarness(ManualClock(seconds=1.0))


@pytest.fixture
def writer() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_chunk_is_charged_until_its_last_slice_completes(bench: AccumulatorHarness) -> None:
    bench.put({0: 500, 1: 400})
    assert bench.memory.used == 900
    first, second = bench.accumulator.take_all()
    bench.accumulator.complete(first)
    assert bench.memory.used == 900
    bench.accumulator.complete(second)
    assert bench.memory.used == 0


def test_small_slices_are_copied_to_release_the_chunk(bench: AccumulatorHarness) -> None:
    chunk = bench.put({0: 880, 1: 60, 2: 60})
    assert bench.memory.used == 1_000 + 120
    batches = {batch.topic_partition.partition: batch for batch in bench.accumulator.take_all()}
    assert memoryview(batches[0].buffers[0]).obj is chunk
    assert isinstance(batches[1].buffers[0], bytearray)
    bench.accumulator.complete(batches[0])
    assert bench.memory.used == 120
    bench.accumulator.complete(batches[1])
    bench.accumulator.complete(batches[2])
    assert bench.memory.used == 0


def test_unused_reservation_is_returned(bench: AccumulatorHarness) -> None:
    bench.memory.reserve(700)
    bench.accumulator.begin_layout()
    bench.accumulator.cancel_layout(700)
    assert bench.memory.used == 0
    bench.clock.advance(1.0)  # type: ignore[attr-defined]
    bench.put({0: 10})
    bench.clock.advance(1.0)  # type: ignore[attr-defined]
    bench.accumulator.close_due(bench.clock.monotonic())
    assert len(bench.queued()) == 1


def test_batches_close_after_linger_ms(bench: AccumulatorHarness) -> None:
    bench.put({0: 100})
    assert bench.accumulator.seconds_until_due(1.0) == pytest.approx(0.099)
    bench.accumulator.close_due(1.098)
    assert bench.queued() == []
    bench.clock.advance(0.06)  # type: ignore[attr-defined]
    bench.put({1: 100})
    bench.accumulator.close_due(1.1)
    assert [batch.topic_partition for batch in bench.queued()] == [PARTITIONS[0]]
    assert bench.accumulator.seconds_until_due(1.1) == pytest.approx(0.059)
    bench.accumulator.close_due(1.161)
    assert len(bench.queued()) == 2


def test_sender_is_woken_only_for_the_first_open_batch() -> None:
    bench = AccumulatorHarness(ManualClock(seconds=1.0), linger_ms=4)
    for expected in (1, 1):
        bench.put({0: 10}, opens=False)
        assert bench.wakes == expected
    bench.accumulator.begin_layout()
    bench.accumulator.close_due(1.0)  # none is due yet
    bench.accumulator.append([], Charge(0, holders=0), 0)
    assert bench.wakes == 1


@pytest.mark.parametrize(("linger_ms", "wakes"), [(0, 1), (4, 1), (5, 0), (1_000, 0)])
def test_sender_is_woken_only_if_it_would_miss_the_deadline_of_an_open_batch(
    linger_ms: int, wakes: int
) -> None:
    bench = AccumulatorHarness(ManualClock(seconds=1.0), linger_ms=linger_ms)
    assert bench.accumulator.seconds_until_due(1.0) <= (1.0 if wakes else linger_ms / 1000)
    bench.put({0: 100})
    assert bench.wakes == wakes


def test_batch_due_during_append_is_closed_after_it(bench: AccumulatorHarness) -> None:
    bench.put({0: 100})
    wakes = bench.wakes
    bench.put({1: 100})
    assert bench.wakes == wakes  # the sender's timer is already set
    bench.accumulator.begin_layout()
    bench.accumulator.close_due(1.1)
    assert bench.queued() == []
    bench.accumulator.append([], Charge(0, holders=0), 0)
    assert bench.wakes == wakes + 1
    bench.accumulator.begin_layout()
    bench.accumulator.append([], Charge(0, holders=0), 0)
    assert bench.wakes == wakes + 1  # already set
    bench.accumulator.close_due(1.1)
    assert len(bench.queued()) == 2


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_linger_starts_at_append_not_at_encoding(
    start: float,
) -> None:
    bench = AccumulatorHarness(ManualClock(start))
    bench.accumulator.begin_layout()
    bench.clock.advance(0.04)  # type: ignore[attr-defined]
    bench.accumulator.append(
        [EncodedSlice(PARTITIONS[0], b"1234", 1, True, 5, 5)], Charge(4, holders=0), 0
    )
    ((_, batch),) = bench.accumulator.open_batches()
    assert batch.created_at == start
    assert bench.accumulator.seconds_until_due(start + 0.04) == pytest.approx(0.059)


@pytest.mark.parametrize(
    ("linger_ms", "closes_after"), [(0, 0.0), (1, 0.00075), (2, 0.0015), (5, 0.004), (50, 0.049)]
)
def test_batch_is_sent_early_rather_than_late(linger_ms: int, closes_after: float) -> None:
    """The sender's timer has millisecond resolution and rounds up."""
    bench = AccumulatorHarness(ManualClock(1.0), linger_ms=linger_ms)
    bench.put({0: 100})
    created = bench.clock.monotonic()
    assert bench.accumulator.seconds_until_due(created) == pytest.approx(closes_after)
    bench.accumulator.close_due(created + closes_after - 0.0001)
    assert bench.queued() == []
    bench.accumulator.close_due(created + closes_after + 0.0001)
    assert len(bench.queued()) == 1


def test_open_batches_leave_half_of_the_buffer_to_the_writer(bench: AccumulatorHarness) -> None:
    for partition in range(5):
        bench.put({partition: 900})
        bench.accumulator.close_due(1.0)
    assert bench.queued() == []
    wakes = bench.wakes
    for partition in range(5, 7):
        bench.put({partition: 900})
    assert bench.wakes > wakes
    bench.accumulator.close_due(1.0)
    assert [batch.topic_partition for batch in bench.queued()] == PARTITIONS[:5]
    assert {batch.close_reason for batch in bench.queued()} == {CloseReason.MEMORY}


@pytest.mark.parametrize(("more", "left"), [(0, 10), (1, 4)])
def test_open_batches_may_use_half_of_the_buffer_then_a_quarter(
    bench: AccumulatorHarness, more: int, left: int
) -> None:
    for partition in range(10):
        bench.put({partition: 500})
    if more:
        bench.put({9: more}, opens=False)
    bench.accumulator.close_due(1.0)
    assert len(bench.accumulator.open_batches()) == left


def test_closed_batches_beyond_half_of_the_buffer_close_nothing(bench: AccumulatorHarness) -> None:
    bench.put({10: 1_000})
    closed = bench.queued()
    for partition in range(10):
        bench.put({partition: 500})
    bench.accumulator.close_due(1.0)
    assert bench.memory.used == 6_000
    assert bench.queued() == closed


def test_open_batches_stay_open_if_closed_ones_fill_the_buffer(bench: AccumulatorHarness) -> None:
    for partition in range(4):
        bench.put({partition: 1_000})
    closed = bench.queued()
    for partition in range(10, 14):
        bench.put({partition: 900})
    bench.accumulator.close_due(1.0)
    assert bench.memory.used > bench.memory.limit / 2
    assert bench.queued() == closed
    assert len(bench.accumulator.open_batches()) == 4


def test_open_batch_stays_open_while_a_layout_uses_it(bench: AccumulatorHarness) -> None:
    bench.put({0: 100})
    bench.accumulator.begin_layout()
    bench.accumulator.close_due(50.0)
    assert bench.queued() == []
    known = bench.accumulator.open_batch(PARTITIONS[0])
    assert known is not None
    assert (known.records, known.size) == (1, 161)
    bench.accumulator.cancel_layout(0)
    bench.accumulator.close_due(50.0)
    assert len(bench.queued()) == 1


def test_reserve_waits_for_memory_and_is_woken(writer: ThreadPoolExecutor) -> None:
    bench = AccumulatorHarness(
        SystemClock(), max_block_ms=60_000, batch_size=9_000, linger_ms=60_000
    )
    bench.put({0: 4_500, 1: 4_500})
    waiting = writer.submit(bench.memory.reserve, 5_000)
    wait_until(lambda: bench.wakes >= 2)
    with pytest.raises(TimeoutError):
        waiting.result(0.02)
    # Open batches are closed early, because the writer waits for their memory.
    bench.accumulator.close_due(bench.clock.monotonic())
    first, second = bench.queued()
    assert bench.queued() == [first, second]
    bench.accumulator.complete(first)
    with pytest.raises(TimeoutError):
        waiting.result(0.02)
    bench.accumulator.complete(second)
    waiting.result(SOON)
    assert bench.memory.used == 5_000
    meters = MetricsRecorder()
    bench.memory.measure(meters)
    assert (meters.buffer_waits, meters.buffer_wait > 0.03) == (1, True)


@pytest.mark.parametrize("wait", ["reserve", "flush", "topics"])
def test_end_of_sender_wakes_the_writer(wait: str, writer: ThreadPoolExecutor) -> None:
    bench = AccumulatorHarness(SystemClock(), max_block_ms=600_000)
    accumulator = bench.accumulator
    bench.put({0: 9_500})
    work = {
        "reserve": lambda: bench.memory.reserve(1_000),
        "flush": accumulator.flush,
        "topics": lambda: bench.state.wait_for(lambda: False, 600.0),
    }[wait]
    waiting = writer.submit(work)
    with pytest.raises(TimeoutError):
        waiting.result(0.03)
    error = DeliveryError("the sender is gone")
    bench.state.fail(error)
    assert waiting.exception(SOON) is error
    with pytest.raises(DeliveryError):
        bench.memory.reserve(1)


def test_append_after_the_end_is_ignored(bench: AccumulatorHarness) -> None:
    bench.memory.reserve(100)
    bench.accumulator.begin_layout()
    bench.state.fail(DeliveryError("gone"))
    piece = EncodedSlice(
        PARTITIONS[0], b"x" * 50, 1, opens_batch=True, base_timestamp=0, max_timestamp=0
    )
    with pytest.raises(DeliveryError):
        bench.accumulator.append([piece], Charge(50, holders=0), 100)
    bench.accumulator.cancel_layout(100)
    assert (bench.memory.used, bench.state.incomplete) == (0, 0)


def test_flush_waits_for_appended_batches(writer: ThreadPoolExecutor) -> None:
    bench = AccumulatorHarness(SystemClock())
    bench.put({0: 100, 1: 100})
    flushing = writer.submit(bench.accumulator.flush)
    wait_until(lambda: len(bench.queued()) == 2)
    first, second = bench.queued()
    bench.accumulator.complete(first)
    with pytest.raises(TimeoutError):
        flushing.result(0.02)
    bench.accumulator.complete(second)
    flushing.result(SOON)


def test_compressed_batch_is_charged_for_its_compressed_size() -> None:
    bench = AccumulatorHarness(ManualClock(), compression_type="lz4")
    bench.put({0: 939, 1: 939})
    first, second = bench.queued()
    assert not first.is_ready
    assert bench.memory.used == 2 * 939
    bench.codec.run()
    assert bench.accumulator.store_compressed() is None
    assert first.is_ready
    assert (first.codec, first.compression_s) == (Codec.LZ4, 0.0)  # type: ignore[unreachable]
    assert bench.memory.used == first.payload_size + second.payload_size < 939
    bench.complete_all()
    assert bench.memory.used == 0


def test_batch_that_expires_during_compression_releases_its_memory() -> None:
    bench = AccumulatorHarness(ManualClock(), compression_type="lz4")
    bench.put({0: 939})
    (expired,) = bench.queues.take_first(lambda batch: batch.created_at <= 0.0)
    bench.accumulator.complete(expired)
    bench.codec.run()
    assert bench.accumulator.store_compressed() is None
    assert bench.memory.used == 0
    assert bench.state.incomplete == 0


def test_only_batches_beyond_the_timeout_expire(bench: AccumulatorHarness) -> None:
    bench.put({0: 939})
    bench.clock.advance(5.0)  # type: ignore[attr-defined]
    bench.put({0: 939, 1: 939})
    expired = bench.queues.take_first(lambda batch: batch.created_at <= 3.0)
    assert [(batch.topic_partition, batch.created_at) for batch in expired] == [
        (PARTITIONS[0], 1.0)
    ]
    assert len(bench.queued()) == 2


def test_concurrent_reservations_and_completions_keep_accounting_exact(
    bench: AccumulatorHarness,
) -> None:
    """The codec and sender threads complete batches while the writer appends."""
    stop = threading.Event()

    def complete() -> None:
        while not stop.is_set():
            bench.complete_all()

    completer = threading.Thread(target=complete)
    completer.start()
    for _ in range(300):
        bench.put({0: 200, 1: 30, 2: 400})
    stop.set()
    completer.join(SOON)
    bench.complete_all()
    assert (bench.memory.used, bench.state.incomplete) == (0, 0)
