"""Sizes of requests, and requests that were not written to the socket completely."""

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.limits.size_limits import DOUBLED_AFTER_S, RequestSizeLimit
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.offline import config
from tests.support.harness.world import World, world

KIB = 1 << 10
MIB = 1 << 20
PARTITIONS = 8

NOT, POSSIBLY = DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED
PERSISTED = DeliveryStatus.PERSISTED
SENT = DeliveryStatus.SENT


def request_sizes(sim: World) -> list[int]:
    """Return the batch bytes of each request that a broker has received."""
    return [sum(map(len, seen.batches.values())) for seen in sim.cluster.seen]


def send_to_all(sim: World, size: int) -> None:
    """Send one batch to each partition."""
    sim.cluster.seen.clear()
    for partition in range(PARTITIONS):
        sim.send([b"." * size], partition)


def test_requests_may_exceed_max_record_size() -> None:
    producer = config()
    assert (producer.max_request_size, producer.max_batched_request_size) == (MIB, 4 * MIB)
    with world(FakeCluster(topics={"t": PARTITIONS}), batch_size=MIB, linger_ms=1_000) as sim:
        send_to_all(sim, 900 * KIB)
        sim.finish()
        assert max(request_sizes(sim)) > 3 * MIB
        assert max(request_sizes(sim)) <= 4 * MIB


def test_explicit_max_request_size_limits_records_and_requests() -> None:
    for size in (1_000, MIB, 16 * MIB):
        producer = config(max_request_size=size)
        assert (producer.max_request_size, producer.max_batched_request_size) == (size, size)


@pytest.mark.parametrize(
    "options", [{"acks": 0}, {"acks": 1}, {"retries": 0}, {"enable_idempotence": "false"}]
)
def test_requests_stay_small_without_idempotence(options: dict[str, object]) -> None:
    assert config(**options).max_batched_request_size == MIB
    assert config(**options, max_request_size=2 * MIB).max_batched_request_size == 2 * MIB


def test_broker_with_slow_responses_receives_smaller_requests() -> None:
    cluster = FakeCluster(topics={"t": PARTITIONS})
    with world(cluster, batch_size=900 * KIB, request_timeout_ms=30_000) as sim:
        send_to_all(sim, 1_000)
        sim.finish()
        for owed, largest in ((2.9, 4 * MIB), (3.1, MIB)):
            cluster.faults.append(Fault(hold=True))
            sim.send([b"."], 0)
            sim.run(lambda: sim.client.network.in_flight(1) == 1)
            sim.clock.advance(owed)
            send_to_all(sim, 900 * KIB)
            sim.steps(20, tick=0.001)
            assert largest - MIB < max(request_sizes(sim)) <= largest
            cluster.release()
            sim.finish()
        sim.check_accounting()


def test_request_time_starts_when_the_socket_accepts_it() -> None:
    """Five requests together would exceed the timeout, but no single one does."""
    with world(request_timeout_ms=1_000, delivery_timeout_ms=60_000) as sim:
        sim.deliver_batches(1)
        sim.cluster.writable_bytes[1] = 0
        sim.send_batches(5)
        state = sim.buffer.state
        while state.incomplete_batches:
            assert sim.client.network.in_flight(1) <= 2
            sim.cluster.writable_bytes[1] += 100  # 2 KB per second, in batches of nearly 1 KB
            sim.step(0.05)
        assert sim.report().retries == 0
        sim.check_accounting()


def test_broker_that_closes_the_connection_receives_smaller_requests() -> None:
    cluster = FakeCluster(topics={"t": PARTITIONS})
    with world(cluster, batch_size=MIB, linger_ms=1_000, buffer_memory=64 * MIB) as sim:
        cluster.faults.append(Fault(lose=True))
        send_to_all(sim, 900 * KIB)
        sim.finish()
        lost, *later = request_sizes(sim)
        assert lost > 3 * MIB
        assert max(later) <= MIB
        send_to_all(sim, 900 * KIB)
        sim.finish()
        assert max(request_sizes(sim)) <= MIB

        sim.clock.advance(DOUBLED_AFTER_S)
        send_to_all(sim, 900 * KIB)
        sim.finish()
        assert max(request_sizes(sim)) > 3 * MIB
        sim.check_accounting()


def test_lost_small_requests_do_not_lower_the_limit() -> None:
    limit = RequestSizeLimit(largest=4 * MIB, safe=MIB)
    limit.record_lost(MIB, 10.0)
    assert limit.at(10.0) == 4 * MIB
    limit.record_lost(MIB + 1, 10.0)
    assert limit.at(10.0) == MIB
    assert limit.at(10.0 + DOUBLED_AFTER_S - 1) == MIB
    limit.record_lost(2 * MIB, 300.0)
    assert limit.at(10.0 + DOUBLED_AFTER_S) == MIB
    assert limit.at(300.0 + DOUBLED_AFTER_S) == 4 * MIB


def test_explicit_limit_is_never_raised() -> None:
    limit = RequestSizeLimit(largest=1_000, safe=2_000)
    limit.record_lost(3_000, 1.0)
    assert limit.at(1.0) == 1_000


def size_of_a_request(sim: World) -> int:
    """Return the request size, including the four length bytes; the request is sent."""
    sim.deliver_batches(1)
    return sim.cluster.seen[-1].size + 4


def send_into(sim: World, room: int, batches: int, whole: int = 0) -> None:
    """Let the socket accept `room` bytes of the requests, one per batch, then fail.

    Batches after the first incomplete request stay queued.
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


def test_incompletely_written_batch_is_resent_and_reported_as_such(sim: World) -> None:
    size = size_of_a_request(sim)
    send_into(sim, size + 10, 3, 1)
    sim.cluster.writable_bytes.clear()
    sim.cluster.alive.add(1)
    sim.finish()
    assert sim.statuses() == {PERSISTED: 12}
    assert dict(sim.report().errors) == {"DISCONNECTED": 1, "NOT_SENT": 1}
    sim.check_accounting()


def test_unknown_producer_id_is_no_failure_if_nothing_was_written(sim: World) -> None:
    """A batch that may be in the log cannot use a new epoch; one that was never written can."""
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
        sim.deliver_batches(1)
        cluster.writable_bytes[1] = room
        sim.send_batches(1)
        sim.steps(5)
        assert sim.statuses() == {SENT: 3}
        sim.cluster.stop(1)
        cluster.writable_bytes.clear()
        cluster.alive.add(1)
        sim.finish()
        assert sim.statuses() == {SENT: 6}
