"""A request that the socket never took whole had no effect: nothing of it is in doubt."""

from __future__ import annotations

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.protocol.versions import ApiKey
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

NOT, POSSIBLY = DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED
PERSISTED = DeliveryStatus.PERSISTED
SENT = DeliveryStatus.SENT


def size_of_a_request(one: World) -> int:
    """With the four bytes of its length; it is sent on the way."""
    one.send_batches(1)
    one.finish()
    return one.cluster.seen[-1].size + 4


def send_into(one: World, room: int, batches: int, whole: int = 0) -> None:
    """Let the socket take so many bytes of the requests, one for each batch; then it breaks.

    Those after the first that it does not take whole wait for that.
    """
    one.cluster.room[1] = room
    one.cluster.mute.add(ApiKey.PRODUCE)
    one.send_batches(batches)
    one.run(lambda: one.client.network.in_flight(1) == whole + 1)
    one.steps(5)
    assert one.client.network.in_flight(1) == whole + 1
    one.cluster.stop(1)
    one.cluster.mute.clear()


@pytest.mark.parametrize(
    ("requests", "more", "whole"), [(0, 0, 0), (0, 7, 0), (1, -1, 0), (1, 0, 1), (2, 300, 2)]
)
def test_what_was_not_written_whole_is_not_persisted(requests: int, more: int, whole: int) -> None:
    with world(delivery_timeout_ms=31_000) as one:
        size = size_of_a_request(one)
        send_into(one, requests * size + more, 4, whole)
        with pytest.raises(DeliveryError):
            one.finish(tick=0.5)
        expected = {PERSISTED: 3, POSSIBLY: 3 * whole, NOT: 3 * (4 - whole)}
        assert one.statuses() == {status: count for status, count in expected.items() if count}
        one.check_accounts()


def test_it_is_sent_again_and_named_for_what_it_was() -> None:
    with world() as one:
        size = size_of_a_request(one)
        send_into(one, size + 10, 3, 1)
        one.cluster.room.clear()
        one.cluster.alive.add(1)
        one.finish()
        assert one.statuses() == {PERSISTED: 12}
        assert dict(one.report().errors) == {"DISCONNECTED": 1, "NOT_SENT": 1}
        one.check_accounts()


def test_an_unknown_producer_is_no_failure_where_nothing_was_written() -> None:
    """What may be in the log can't go under a new epoch; what was never written can."""
    with world() as one:
        size_of_a_request(one)
        send_into(one, 100, 1)
        one.cluster.room.clear()
        one.cluster.alive.add(1)
        one.fault(Fault(error=ErrorCode.unknown_producer_id))
        one.finish()
        assert one.statuses() == {PERSISTED: 6}


@pytest.mark.parametrize("room", [0, 150])
def test_without_acknowledgements_it_is_not_counted_as_sent(room: int) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, acks=0, enable_idempotence="false") as one:
        one.send_batches(1)
        one.finish()
        cluster.room[1] = room
        one.send_batches(1)
        one.steps(5)
        assert one.statuses() == {SENT: 3}
        one.cluster.stop(1)
        cluster.room.clear()
        cluster.alive.add(1)
        one.finish()
        assert one.statuses() == {SENT: 6}
