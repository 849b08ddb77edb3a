"""The compressor: closed batches in; payload and time, or an error, out."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.compression import decompress
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.buffer.compressor import Compressor
from tests.support.clock import ManualClock
from tests.support.harness.offline import config
from tests.support.harness.world import TIMEOUT_S, ManualExecutor

RECORDS = b"the same again and again, " * 100


def batch(records: bytes = RECORDS) -> ProducerBatch:
    filled = ProducerBatch(TopicPartition("t", 0), 0.0, 0, 0)
    filled.add(records, 1, 0)
    return filled


class CompressorHarness:
    """A compressor whose work runs when the test calls for it."""

    def __init__(self) -> None:
        self.executor = ManualExecutor()
        self.clock = ManualClock()
        self.calls = 0
        settings = config(compression_type="zstd")
        self.compressor = Compressor(settings, self.clock, self._called, self.executor)

    def _called(self) -> None:
        self.calls += 1


@pytest.fixture
def harness() -> CompressorHarness:
    return CompressorHarness()


def test_results_keep_batch_order_and_are_returned_once(harness: CompressorHarness) -> None:
    batches = [batch(), batch(b"another")]
    for submitted in batches:
        harness.compressor.submit(submitted)
    harness.executor.run()
    results = harness.compressor.take_results()
    assert [result.batch for result in results] == batches
    assert decompress(Codec.ZSTD, results[0].payload, 1 << 20) == RECORDS
    assert len(results[0].payload) < len(RECORDS)
    assert (results[0].error, results[0].seconds) == (None, 0.0)
    assert harness.calls == 2
    assert harness.compressor.take_results() == []


def test_close_finishes_the_running_compression_and_drops_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, closing, finished = Event(), Event(), Event()

    def on_result() -> None:
        started.set()
        assert closing.wait(TIMEOUT_S)
        finished.set()

    def shutdown(executor: ThreadPoolExecutor, *, wait: bool, cancel_futures: bool) -> None:
        usual(executor, wait=False, cancel_futures=cancel_futures)
        closing.set()
        usual(executor, wait=wait)

    usual = ThreadPoolExecutor.shutdown
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    compressor = Compressor(config(compression_type="lz4"), ManualClock(), on_result)
    first = batch()
    compressor.submit(first)
    assert started.wait(TIMEOUT_S)
    compressor.submit(batch(b"another"))
    compressor.close()
    assert finished.is_set()
    results = compressor.take_results()
    assert [result.batch for result in results if result.error is None] == [first]
    with pytest.raises(RuntimeError):
        compressor.submit(batch())


def test_thread_that_the_system_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", no_thread)
    compressor = Compressor(config(compression_type="lz4"), ManualClock(), lambda: None)
    with pytest.raises(DeliveryError, match="the codec thread cannot start"):
        compressor.submit(batch())
