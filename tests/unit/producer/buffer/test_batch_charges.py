"""The memory of batches: shared chunks, copies and compressed records."""

import pytest

from spark_kafka_sink.config.enums import Codec
from tests.unit.producer.buffer.accumulator_harness import AccumulatorHarness
from tests.unit.producer.stalled_broker import (
    bytes_of_stalled,
    held_now,
    numbered_rows,
    stalled_cluster,
)


@pytest.fixture
def harness() -> AccumulatorHarness:
    return AccumulatorHarness()


def test_chunk_is_charged_until_its_last_slice_completes(harness: AccumulatorHarness) -> None:
    harness.put({0: 500, 1: 400})
    assert harness.memory.used == 900
    first, second = harness.accumulator.take_all()
    harness.accumulator.complete(first)
    assert harness.memory.used == 900
    harness.accumulator.complete(second)
    assert harness.memory.used == 0


def test_small_slices_are_copied_to_release_the_chunk(harness: AccumulatorHarness) -> None:
    chunk = harness.put({0: 880, 1: 60, 2: 60})
    assert harness.memory.used == 1_000 + 120
    batches = {batch.topic_partition.partition: batch for batch in harness.accumulator.take_all()}
    assert memoryview(batches[0].buffers[0]).obj is chunk
    assert isinstance(batches[1].buffers[0], bytearray)
    harness.accumulator.complete(batches[0])
    assert harness.memory.used == 120
    harness.accumulator.complete(batches[1])
    harness.accumulator.complete(batches[2])
    assert harness.memory.used == 0


def test_compressed_batch_is_charged_for_its_compressed_size() -> None:
    harness = AccumulatorHarness(compression_type="lz4")
    harness.put({0: 939, 1: 939})
    first, second = harness.queued()
    assert not first.is_ready
    assert harness.memory.used == 2 * 939
    harness.codec.run()
    assert harness.accumulator.store_compressed() is None
    assert first.is_ready
    assert (first.codec, first.compression_s) == (Codec.LZ4, 0.0)  # type: ignore[unreachable]
    assert harness.memory.used == first.payload_size + second.payload_size < 939
    harness.complete_all()
    assert harness.memory.used == 0


def test_batch_that_expires_during_compression_releases_its_memory() -> None:
    harness = AccumulatorHarness(compression_type="lz4")
    harness.put({0: 939})
    (expired,) = harness.queues.take_first(lambda batch: batch.created_at <= 1.0)
    harness.accumulator.complete(expired)
    harness.codec.run()
    assert harness.accumulator.store_compressed() is None
    assert harness.memory.used == 0
    assert harness.state.incomplete_batches == 0


def test_slice_that_pins_an_old_chunk_is_copied() -> None:
    with stalled_cluster(buffer_memory=1 << 20, batch_size=100_000, linger_ms=10**6) as (
        sim,
        cluster,
    ):
        sim.session.append(numbered_rows(0, 400))
        sim.appended += 400
        sim.close_batches()
        pool = sim.buffer.pool
        sim.run(lambda: not any(held_now(sim)[::2]))
        before = pool.used
        assert before > 1.8 * bytes_of_stalled(sim)
        sim.clock.advance(1.0)
        with sim.blocked_writer():
            sim.steps(2)
        assert pool.used == bytes_of_stalled(sim)
        cluster.resume()
        sim.finish()
        sim.check_accounting()
        assert [v and v[:6] for v in cluster.logs["t", 1].values()[1:3]] == [b"000001", b"000005"]
