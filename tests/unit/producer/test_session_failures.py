"""Permanent failures: each record has exactly one outcome, and `persisted` means acknowledged."""

import time
from concurrent.futures import Future
from random import Random
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError, RecordTooLargeError
from spark_kafka_sink.kafka.client.cluster_snapshot import NO_LEADER
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.producer_id import ProducerIdState
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

PERSISTED = DeliveryStatus.PERSISTED
NOT, POSSIBLY = DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED
LOADING = ErrorCode.coordinator_load_in_progress


def fails(sim: World, tick: float = 0.005) -> DeliveryError:
    """Run until the failure; check that statuses and report agree and contain all records."""
    with pytest.raises(DeliveryError) as caught:
        sim.finish(tick)
    sim.check_accounting()
    counts: dict[DeliveryStatus, int] = {}
    for status in caught.value.statuses:
        counts[status.status] = counts.get(status.status, 0) + status.records
    assert counts == {s: n for s, n in sim.statuses().items() if s is not PERSISTED}
    return caught.value


@pytest.mark.parametrize("code", [29, 17, 21, 43, 76, 87, 32, 31, 49, 53, 90, 47, 45])
def test_rejection_fails_the_session_and_is_not_persisted(code: int) -> None:
    with world() as sim:
        sim.send_batches(1)
        sim.finish()
        sim.fault(Fault(error=code))
        sim.send_batches(4)
        sim.send_batches(2, partition=1)
        error = fails(sim)
        assert (error.topic, error.partition) in {("t", 0), ("t", 1)}
        assert sim.statuses()[PERSISTED] >= 3
        assert NOT in sim.statuses()


@pytest.mark.parametrize("code", [-1, 9_999])
def test_unknown_error_leaves_doubt(code: int) -> None:
    with world() as sim:
        sim.fault(Fault(error=code))
        sim.send_batches(3)
        fails(sim)
        assert sim.statuses() == {POSSIBLY: 3, NOT: 6}


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_error_names_the_record_that_is_too_large(codec: str) -> None:
    """Rows rotate over many partitions, so that rows of a batch are not consecutive."""
    with world(batch_size=60_000, max_request_size=60_000, compression_type=codec) as sim:
        sim.cluster.logs["t", 1].max_batch = 3_000
        values = [Random(row).randbytes(4_000 if row == 41 else 1_200) for row in range(60)]
        sim.appended = len(values)
        sim.session.append(
            Rows(
                columns=Columns(
                    value=pa.array(values, pa.binary()),
                    key=pa.array([f"k{row}".encode() for row in range(60)], pa.binary()),
                ),
                topics=("t",),
                partition=pa.array([row % 4 for row in range(60)], pa.int32()),
                first_row=7_000,
                spark_partition=3,
            )
        )
        error = fails(sim)
        assert isinstance(error, RecordTooLargeError)
        assert error.kafka_error == "MESSAGE_TOO_LARGE"
        assert "row 7,041 of Spark partition 3 (key 'k41') is 4,0" in str(error)
        assert "more than the broker accepts" in str(error)
        assert "max.message.bytes" in str(error)
        assert sim.statuses()[PERSISTED] + sim.statuses()[NOT] == 60


def test_delivery_timeout_in_the_queue_is_not_persisted() -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, delivery_timeout_ms=31_000) as sim:
        cluster.stop(1)
        sim.send_batches(2)
        error = fails(sim, 0.25)
        assert sim.statuses() == {NOT: 6}
        assert "delivery.timeout.ms" in str(error)
        assert "refused" in str(error)


def test_delivery_timeout_excludes_waiting_for_other_batches_of_the_leader() -> None:
    """Ten batches, each acknowledged after 20 s: the last one waits longer than the timeout."""
    with world(FakeCluster(topics={"t": 1}), delivery_timeout_ms=31_000) as sim:
        sim.fault(*[Fault(hold=True)] * 10)
        sim.send_batches(10)
        for _ in range(10):
            sim.steps(100, 0.2)
            sim.cluster.release()
        sim.finish()
        sim.check_accounting()


def test_delivery_timeout_excludes_throttling() -> None:
    with world(FakeCluster(topics={"t": 1}), delivery_timeout_ms=31_000) as sim:
        sim.fault(*[Fault(throttle_ms=50_000)] * 10)
        sim.send_batches(10)
        sim.finish(0.2)
        sim.check_accounting()
        assert sim.report().throttle_ms == 500_000


@pytest.mark.parametrize("failing", ["rejected", "without response", "without producer id"])
def test_delivery_timeout_after_failures_includes_throttling_and_names_it(failing: str) -> None:
    """A quota throttles the rejections of batches, other requests, or those of the producer id."""
    with world(delivery_timeout_ms=31_000) as sim:
        if failing == "rejected":
            sim.fault(*[Fault(error=ErrorCode.not_enough_replicas, throttle_ms=2_000)] * 1_000)
        else:
            sim.cluster.throttle_ms = 2_000
            sim.fault(*[Fault(lose=True)] * 1_000)
        if failing == "without producer id":
            sim.cluster.init_errors.extend([LOADING] * 1_000)
            sim.session.identity.transition_to(ProducerIdState.MISSING)
        sim.send_batches(1)
        begun = sim.clock.monotonic()
        text = str(fails(sim, 0.25))
        assert sim.clock.monotonic() - begun < 36
        assert "a quota of the brokers has throttled this task for" in text
        assert failing != "rejected" or f"task for {sim.report().throttle_ms:,} ms" in text


def test_stalled_throttled_broker_is_detected_after_its_pause() -> None:
    with world(FakeCluster(topics={"t": 1}), delivery_timeout_ms=31_000) as sim:
        sim.fault(Fault(throttle_ms=100_000), *[Fault(hold=True)] * 50)
        sim.send_batches(3)
        begun = sim.clock.monotonic()
        error = fails(sim, 0.25)
        assert 131 <= sim.clock.monotonic() - begun < 165
        assert "producer_byte_rate" in str(error.hint)


def test_throttled_bootstrap_server_does_not_delay_timeout_without_leader() -> None:
    """Metadata responses have -1 as the missing leader, like the id of the first server."""
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    cluster.throttle_ms = 100_000
    with world(cluster, delivery_timeout_ms=31_000) as sim:
        cluster.throttle_ms = 0
        cluster.stop(1)
        sim.send_batches(1)
        begun = sim.clock.monotonic()
        error = fails(sim, 0.25)
        assert sim.client.metadata.cluster.leader("t", 0) == NO_LEADER
        assert "delivery.timeout.ms" in str(error)
        assert 31 <= sim.clock.monotonic() - begun < 36


@pytest.mark.parametrize(
    ("code", "name", "status"),
    [
        (2, "CORRUPT_MESSAGE", NOT),
        (6, "NOT_LEADER", POSSIBLY),
        (7, "REQUEST_TIMED_OUT", POSSIBLY),
        (19, "NOT_ENOUGH_REPLICAS", NOT),
        (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", POSSIBLY),
    ],
)
def test_delivery_timeout_after_rejections_names_the_latest(
    code: int, name: str, status: DeliveryStatus
) -> None:
    """Brokers before 2.4 report any record that they reject as corrupt (KIP-467)."""
    with world(delivery_timeout_ms=31_000) as sim:
        sim.fault(*[Fault(error=code)] * 10_000)
        sim.send_batches(1)
        error = fails(sim, 0.25)
        assert f"latest response was {name}" in str(error)
        assert str(error.kafka_error).startswith(name)
        assert "delivery.timeout.ms" in str(error)
        assert ("null key" in str(error.hint)) is (code == 2)
        assert sim.statuses() == {status: 3}


def test_delivery_timeout_in_flight_is_possibly_persisted() -> None:
    with world(delivery_timeout_ms=31_000) as sim:
        sim.send_batches(1)
        sim.finish()
        sim.fault(Fault(hold=True), *[Fault(hold=True)] * 50)
        sim.send_batches(8)
        fails(sim, 0.25)
        assert sim.statuses() == {PERSISTED: 3, POSSIBLY: 15, NOT: 9}


def test_delivery_timeout_before_request_timeout_is_possibly_persisted() -> None:
    """Batches in flight were sent late: no earlier request has timed out."""
    times: dict[str, Any] = {
        "request_timeout_ms": 9_000,
        "retry_backoff_ms": 6_000,
        "retry_backoff_max_ms": 6_000,
    }
    with world(delivery_timeout_ms=10_000, **times) as sim:
        sim.fault(Fault(error=ErrorCode.not_enough_replicas), *[Fault(hold=True)] * 5)
        sim.send_batches(1)
        fails(sim, 0.05)
        assert sim.statuses() == {POSSIBLY: 3}


@pytest.mark.parametrize("append", [True, False])
def test_delivery_timeout_after_lost_response_is_possibly_persisted(append: bool) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, delivery_timeout_ms=31_000) as sim:
        sim.fault(Fault(lose=True, error=None if append else 0))
        sim.send_batches(1)
        sim.run(lambda: bool(cluster.seen))
        cluster.stop(1)
        fails(sim, 0.25)
        assert sim.statuses() == {POSSIBLY: 3}
        assert cluster.logs["t", 0].end == (3 if append else 0)


@pytest.mark.parametrize("retries", [1, 3])
def test_retries_are_exhausted(retries: int) -> None:
    with world(retries=retries) as sim:
        sim.fault(*[Fault(error=ErrorCode.not_enough_replicas)] * 10)
        sim.send_batches(1)
        error = fails(sim)
        assert len(sim.cluster.seen) == 1 + retries
        assert error.kafka_error == "NOT_ENOUGH_REPLICAS"
        assert sim.statuses() == {NOT: 3}


def test_batches_in_flight_when_the_session_fails_still_count() -> None:
    with world() as sim:
        sim.send_batches(1, partition=0)
        sim.send_batches(1, partition=1)
        sim.finish()
        sim.fault(Fault(error=ErrorCode.topic_authorization_failed), None)
        sim.send_batches(1, partition=0)
        sim.steps(1)
        sim.send_batches(1, partition=1)
        sim.steps(1)
        fails(sim)
        assert sim.statuses() == {PERSISTED: 9, NOT: 3}


def test_rejected_records_are_in_the_message() -> None:
    named = [{"batch_index": 1, "batch_index_error_message": "no key"}]
    with world() as sim:
        sim.fault(
            Fault(
                error=ErrorCode.invalid_record,
                extra={"record_errors": named, "error_message": "bad records"},
            )
        )
        sim.send_batches(1)
        error = fails(sim)
        assert "record 1: no key" in str(error)
        assert "bad records" in str(error)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_failed_compressed_batches_release_their_memory(codec: str) -> None:
    with world(compression_type=codec) as sim:
        sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
        sim.send_batches(9)
        sim.send([b"open"], partition=2)
        fails(sim)


def test_append_after_failure_raises_it_again() -> None:
    with world() as sim:
        sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
        sim.send_batches(1)
        error = fails(sim)
        with pytest.raises(DeliveryError) as again:
            sim.session.append(_rows_like(sim))
        assert again.value is error
        assert sim.session.context.pool.used == 0


def _rows_like(sim: World) -> Rows:
    return Rows(columns=Columns(value=pa.array([b"late"], pa.binary())), topics=("t",))


def test_flush_never_reports_success_after_failure() -> None:
    """The last batch is settled just before the error is set: flush must not return in between."""
    with world(delivery_timeout_ms=1_000, request_timeout_ms=500, linger_ms=0) as sim:
        accumulator = sim.session.context.accumulator
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
        sim.run(lambda: sim.session.context.state.error is not None)
        assert isinstance(outcome.exception(timeout=10), DeliveryError)
        assert sim.statuses() == {NOT: 3}


def test_sender_crash_reports_every_record() -> None:
    with world() as sim:
        sim.fault(Fault(hold=True))
        sim.send_batches(3)  # the first batch is sent alone
        sim.steps(3)
        sim.sender.handle_crash(RuntimeError("a bug"))
        error = fails(sim)
        assert "the sender thread stopped: RuntimeError: a bug" in str(error)
        assert sim.statuses() == {POSSIBLY: 3, NOT: 6}


def test_codec_error_fails_the_session_and_reports_every_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compress_records(_: ProducerBatch, *__: object) -> bytes:
        raise MemoryError("no room")

    with world(compression_type="lz4") as sim:
        sim.send_batches(1)
        sim.finish()
        monkeypatch.setattr(ProducerBatch, "compress_records", compress_records)
        sim.send_batches(2)
        error = fails(sim)
        assert "compression failed: no room" in str(error)
        assert sim.statuses() == {PERSISTED: 3, NOT: 6}
