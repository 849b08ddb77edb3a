"""delivery.timeout.ms: from when it is measured, and the status of batches that exceed it."""

import re
from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER
from spark_kafka_sink.producer.producer_id import ProducerIdState
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import world

PERSISTED = DeliveryStatus.PERSISTED
NOT, POSSIBLY = DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED
LOADING = ErrorCode.coordinator_load_in_progress


def test_delivery_timeout_in_the_queue_is_not_persisted() -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, delivery_timeout_ms=31_000) as sim:
        cluster.stop(1)
        sim.send_batches(2)
        error = sim.await_failure(0.25)
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
        text = str(sim.await_failure(0.25))
        assert sim.clock.monotonic() - begun < 36
        assert "a quota of the brokers has throttled this task for" in text
        assert failing != "rejected" or f"task for {sim.report().throttle_ms:,} ms" in text


def test_stalled_throttled_broker_is_detected_after_its_pause() -> None:
    with world(FakeCluster(topics={"t": 1}), delivery_timeout_ms=31_000) as sim:
        sim.fault(Fault(throttle_ms=100_000), *[Fault(hold=True)] * 50)
        sim.send_batches(3)
        begun = sim.clock.monotonic()
        error = sim.await_failure(0.25)
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
        error = sim.await_failure(0.25)
        assert sim.client.metadata.cluster.leader("t", 0) == NO_LEADER
        assert "delivery.timeout.ms" in str(error)
        assert 31 <= sim.clock.monotonic() - begun < 36


def test_delivery_timeout_after_lost_responses_names_the_reason() -> None:
    """Event Hubs closes the connection on a request that is too large."""
    with world(delivery_timeout_ms=31_000) as sim:
        sim.fault(*[Fault(lose=True)] * 10_000)
        sim.send_batches(1)
        text = str(sim.await_failure(0.25))
    assert re.search(r"attempt \d+ got no response: the broker closed the connection", text)


@pytest.mark.parametrize(
    ("code", "name", "status"),
    [
        (ErrorCode.corrupt_message, "CORRUPT_MESSAGE", NOT),
        (ErrorCode.not_leader_or_follower, "NOT_LEADER", POSSIBLY),
        (ErrorCode.request_timed_out, "REQUEST_TIMED_OUT", POSSIBLY),
        (ErrorCode.not_enough_replicas, "NOT_ENOUGH_REPLICAS", NOT),
        (ErrorCode.not_enough_replicas_after_append, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", POSSIBLY),
    ],
)
def test_delivery_timeout_after_rejections_names_the_latest(
    code: int, name: str, status: DeliveryStatus
) -> None:
    """Brokers before 2.4 report any record that they reject as corrupt (KIP-467)."""
    with world(delivery_timeout_ms=31_000) as sim:
        sim.fault(*[Fault(error=code)] * 10_000)
        sim.send_batches(1)
        error = sim.await_failure(0.25)
        assert f"latest response was {name}" in str(error)
        assert str(error.kafka_error).startswith(name)
        assert "delivery.timeout.ms" in str(error)
        assert ("null key" in str(error.hint)) is (code == ErrorCode.corrupt_message)
        assert sim.statuses() == {status: 3}


def test_delivery_timeout_in_flight_is_possibly_persisted() -> None:
    with world(delivery_timeout_ms=31_000) as sim:
        sim.deliver_batches(1)
        sim.fault(Fault(hold=True), *[Fault(hold=True)] * 50)
        sim.send_batches(8)
        sim.await_failure(0.25)
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
        sim.await_failure(0.05)
        assert sim.statuses() == {POSSIBLY: 3}


@pytest.mark.parametrize("append", [True, False])
def test_delivery_timeout_after_lost_response_is_possibly_persisted(append: bool) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, delivery_timeout_ms=31_000) as sim:
        sim.fault(Fault(lose=True, error=None if append else ErrorCode.none))
        sim.send_batches(1)
        sim.run(lambda: bool(cluster.seen))
        cluster.stop(1)
        sim.await_failure(0.25)
        assert sim.statuses() == {POSSIBLY: 3}
        assert cluster.logs["t", 0].end == (3 if append else 0)
