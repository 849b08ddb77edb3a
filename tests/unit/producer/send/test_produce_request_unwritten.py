"""A request that was not written to the socket completely has no effect and leaves no doubt."""

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

NOT, POSSIBLY = DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED
PERSISTED = DeliveryStatus.PERSISTED
SENT = DeliveryStatus.SENT


def size_of_a_request(sim: World) -> int:
    """Return the request size, including the four length bytes; the request is sent."""
    sim.send_batches(1)
    sim.finish()
    return sim.cluster.seen[-1].size + 4


def send_into(sim: World, room: int, batches: int, whole: int = 0) -> None:
    """Let the socket accept `room` bytes of the requests, one per batch, then fail.

    Batches behind the first incomplete request stay queued.
    """
    sim.cluster.writable_bytes[1] = room
    sim.cluster.unanswered.add(ApiKey.PRODUCE)
    sim.send_batches(batches)
    sim.run(lambda: sim.client.network.in_flight(1) == whole + 1)
    sim.steps(5)
    assert sim.client.network.in_flight(1) == whole + 1
    sim.cluster.stop(1)
    sim.cluster.unanswered.clear()


@pytest.mark.parametrize(
    ("requests", "more", "whole"), [(0, 0, 0), (0, 7, 0), (1, -1, 0), (1, 0, 1), (2, 300, 2)]
)
def test_incompletely_written_batch_is_not_persisted(requests: int, more: int, whole: int) -> None:
    with world(delivery_timeout_ms=31_000) as sim:
        size = size_of_a_request(sim)
        send_into(sim, requests * size + more, 4, whole)
        with pytest.raises(DeliveryError):
            sim.finish(tick=0.5)
        expected = {PERSISTED: 3, POSSIBLY: 3 * whole, NOT: 3 * (4 - whole)}
        assert sim.statuses() == {status: count for status, count in expected.items() if count}
        sim.check_accounting()


def test_incompletely_written_batch_is_resent_and_reported_as_such() -> None:
    with world() as sim:
        size = size_of_a_request(sim)
        send_into(sim, size + 10, 3, 1)
        sim.cluster.writable_bytes.clear()
        sim.cluster.alive.add(1)
        sim.finish()
        assert sim.statuses() == {PERSISTED: 12}
        assert dict(sim.report().errors) == {"DISCONNECTED": 1, "NOT_SENT": 1}
        sim.check_accounting()


def test_unknown_producer_id_is_no_failure_if_nothing_was_written() -> None:
    """A batch that may be in the log cannot use a new epoch; one that was never written can."""
    with world() as sim:
        size_of_a_request(sim)
        send_into(sim, 100, 1)
        sim.cluster.writable_bytes.clear()
        sim.cluster.alive.add(1)
        sim.fault(Fault(error=ErrorCode.unknown_producer_id))
        sim.finish()
        assert sim.statuses() == {PERSISTED: 6}


@pytest.mark.parametrize("room", [0, 150])
def test_with_acks_0_it_is_not_counted_as_sent(room: int) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, acks=0, enable_idempotence="false") as sim:
        sim.send_batches(1)
        sim.finish()
        cluster.writable_bytes[1] = room
        sim.send_batches(1)
        sim.steps(5)
        assert sim.statuses() == {SENT: 3}
        sim.cluster.stop(1)
        cluster.writable_bytes.clear()
        cluster.alive.add(1)
        sim.finish()
        assert sim.statuses() == {SENT: 6}
