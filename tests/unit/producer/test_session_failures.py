"""Permanent failures: each record has exactly one outcome, and `persisted` means acknowledged."""

import time
from concurrent.futures import Future
from threading import Thread

import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.fake import Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import record_errors

PERSISTED = DeliveryStatus.PERSISTED
NOT, POSSIBLY = DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED


def test_rejection_fails_the_session_and_is_not_persisted(sim: World) -> None:
    sim.deliver_batches(1)
    sim.fault(Fault(error=ErrorCode.invalid_record))
    sim.send_batches(4)
    sim.send_batches(2, partition=1)
    error = sim.await_failure()
    assert (error.topic, error.partition) in {("t", 0), ("t", 1)}
    assert sim.statuses()[PERSISTED] >= 3
    assert NOT in sim.statuses()


@pytest.mark.parametrize("retries", [1, 3])
def test_retries_are_exhausted(retries: int) -> None:
    with world(retries=retries) as sim:
        sim.fault(*[Fault(error=ErrorCode.not_enough_replicas)] * 10)
        sim.send_batches(1)
        error = sim.await_failure()
        assert len(sim.cluster.seen) == 1 + retries
        assert error.kafka_error == "NOT_ENOUGH_REPLICAS"
        assert sim.statuses() == {NOT: 3}


def test_batches_in_flight_when_the_session_fails_still_count(sim: World) -> None:
    sim.send_batches(1, partition=0)
    sim.deliver_batches(1, partition=1)
    sim.fault(Fault(error=ErrorCode.topic_authorization_failed), None)
    sim.send_batches(1, partition=0)
    sim.steps(1)
    sim.send_batches(1, partition=1)
    sim.steps(1)
    sim.await_failure()
    assert sim.statuses() == {PERSISTED: 9, NOT: 3}


def test_rejected_records_are_in_the_message() -> None:
    with world() as sim:
        sim.fault(
            Fault(
                error=ErrorCode.invalid_record,
                extra={**record_errors(1), "error_message": "bad records"},
            )
        )
        sim.send_batches(1)
        error = sim.await_failure()
        assert "record 1: no key" in str(error)
        assert "bad records" in str(error)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_failed_compressed_batches_release_their_memory(codec: str) -> None:
    with world(compression_type=codec) as sim:
        sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
        sim.send_batches(9)
        sim.send([b"open"], partition=2)
        sim.await_failure()


def test_append_after_failure_raises_it_again(sim: World) -> None:
    sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
    sim.send_batches(1)
    error = sim.await_failure()
    with pytest.raises(DeliveryError) as again:
        sim.session.append(rows_like(sim))
    assert again.value is error
    assert sim.buffer.pool.used == 0


def rows_like(sim: World) -> Rows:
    return Rows(columns=Columns(value=pa.array([b"late"], pa.binary())), topics=("t",))


def test_flush_never_reports_success_after_failure() -> None:
    """The last batch is settled just before the error is set: flush must not return in between."""
    with world(delivery_timeout_ms=1_000, request_timeout_ms=500, linger_ms=0) as sim:
        accumulator = sim.buffer.accumulator
        complete = accumulator.complete

        def slowly(batch: ProducerBatch) -> None:
            complete(batch)
            time.sleep(0.05)  # A flush that returns too early would return now.

        def flush_into(outcome: Future[None]) -> None:
            try:
                sim.session.flush()
                outcome.set_result(None)
            except DeliveryError as error:
                outcome.set_exception(error)

        accumulator.complete = slowly  # type: ignore[method-assign]
        sim.fault(*[Fault(error=ErrorCode.not_enough_replicas)] * 100)
        sim.send_batches(1)
        outcome: Future[None] = Future()
        Thread(target=lambda: flush_into(outcome), daemon=True).start()
        sim.run(lambda: sim.buffer.state.error is not None)
        assert isinstance(outcome.exception(timeout=10), DeliveryError)
        assert sim.statuses() == {NOT: 3}


def test_sender_crash_reports_every_record(sim: World) -> None:
    sim.fault(Fault(hold=True))
    sim.send_batches(3)  # the first batch is sent alone
    sim.steps(3)
    sim.sender.handle_crash(RuntimeError("a bug"))
    error = sim.await_failure()
    assert "the sender thread stopped: RuntimeError: a bug" in str(error)
    assert sim.statuses() == {POSSIBLY: 3, NOT: 6}


def test_codec_error_fails_the_session_and_reports_every_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compress_records(_: ProducerBatch, *__: object) -> bytes:
        raise MemoryError("no room")

    with world(compression_type="lz4") as sim:
        sim.deliver_batches(1)
        monkeypatch.setattr(ProducerBatch, "compress_records", compress_records)
        sim.send_batches(2)
        error = sim.await_failure()
        assert "compression failed: no room" in str(error)
        assert sim.statuses() == {PERSISTED: 3, NOT: 6}
