"""Transient failures: records arrive once, in order, with the same sequences."""

from itertools import pairwise

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.producer.producer_id import LAST_EPOCH
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

PERSISTED = DeliveryStatus.PERSISTED


def headers(sim: World, start: int = 0) -> list[BatchHeader]:
    return [
        BatchHeader.parse(data)
        for seen in sim.cluster.seen[start:]
        for data in seen.batches.values()
    ]


def check_log(sim: World, values: list[bytes], partition: int = 0) -> None:
    log = sim.cluster.logs["t", partition]
    assert log.values() == values
    batch_headers = [BatchHeader.parse(data) for data in log.batches]
    next_sequence = 0
    for header in batch_headers:
        assert header.base_sequence == next_sequence
        next_sequence += header.record_count
    assert sim.statuses() == {PERSISTED: sim.appended}
    sim.check_accounting()


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("position", range(5))
def test_lost_response_is_retried_with_same_sequence(position: int, append: bool) -> None:
    with world() as sim:
        first = sim.deliver_batches(1)
        lost = Fault(lose=True) if append else Fault(lose=True, error=ErrorCode.none)
        sim.fault(*[None] * position, lost)
        values = first + sim.deliver_batches(8)
        check_log(sim, values)
        again = [header.base_sequence for header in headers(sim)]
        assert len(again) > len(set(again))


def test_duplicate_sequence_is_success_with_unknown_offset(sim: World) -> None:
    sim.fault(Fault(lose=True), Fault(error=ErrorCode.duplicate_sequence_number))
    sim.deliver_batches(1)
    (part,) = sim.report().partitions
    assert (part.persisted, part.first_offset, part.last_offset) == (3, None, None)
    sim.check_accounting()


def test_sequence_gap_after_failed_batch_is_retried(sim: World) -> None:
    first = sim.deliver_batches(1)
    # The four batches behind the failed one get OUT_OF_ORDER_SEQUENCE_NUMBER.
    sim.fault(Fault(error=ErrorCode.not_enough_replicas))
    values = first + sim.deliver_batches(5)
    check_log(sim, values)
    assert dict(sim.report().errors)["OUT_OF_ORDER_SEQUENCE_NUMBER"] == 4


def test_retries_back_off() -> None:
    with world(retry_backoff_ms=100, retry_backoff_max_ms=1_000) as sim:
        sim.fault(*[Fault(error=ErrorCode.not_enough_replicas)] * 12)
        sim.deliver_batches(1)
        times = [seen.at for seen in sim.cluster.seen]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert max(gaps) <= 1.0 + 0.05
        assert sum(gaps) > 2.0


def move_leader(sim: World, *, hint: bool) -> None:
    """Move the partition from broker 1 to broker 2; broker 1 reports it with or without a hint."""
    sim.cluster.move("t", 0, 2)
    extra = {"current_leader": {"leader_id": 2, "leader_epoch": 1}} if hint else {}
    sim.fault(*[Fault(error=ErrorCode.not_leader_or_follower, extra=extra)] * 5)


@pytest.mark.parametrize("hint", [True, False])
def test_moved_partition_is_written_to_its_new_leader(hint: bool) -> None:
    with world(FakeCluster(nodes=2, topics={"t": 1})) as sim:
        first = sim.deliver_batches(1)
        before = sim.cluster.count(ApiKey.METADATA)
        move_leader(sim, hint=hint)
        values = first + sim.deliver_batches(5)
        check_log(sim, values)
        assert {seen.node for seen in sim.cluster.seen[6:]} == {2}
        assert [part.leader for part in sim.report().partitions] == [2]
        after = sim.cluster.count(ApiKey.METADATA)
        assert (after == before) is hint


def test_new_leader_receives_nothing_before_the_old_one_has_responded() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster) as sim:
        first = sim.deliver_batches(1)
        extra = {"current_leader": {"leader_id": 2, "leader_epoch": 1}}
        sim.fault(
            Fault(error=ErrorCode.not_leader_or_follower, extra=extra),
            Fault(hold=True, error=ErrorCode.not_leader_or_follower),
        )
        values = first + sim.send_batches(5)
        sim.steps(30)
        cluster.move("t", 0, 2)
        sim.steps(50)
        assert {seen.node for seen in cluster.seen} == {1}
        cluster.release()
        sim.finish()
        assert cluster.seen[-1].node == 2
        check_log(sim, values)


def moved_to(leader: int, epoch: int) -> Fault:
    """Return a rejection that names the partition's new leader (KIP-951)."""
    hint = {"current_leader": {"leader_id": leader, "leader_epoch": epoch}}
    return Fault(error=ErrorCode.not_leader_or_follower, extra=hint)


def test_hint_may_name_a_new_broker() -> None:
    cluster = FakeCluster(nodes=3, topics={"t": 1})
    cluster.alive = {1}
    with world(cluster) as sim:
        sim.deliver_batches(1)
        cluster.alive = {1, 3}
        cluster.move("t", 0, 3)
        sim.fault(moved_to(3, epoch=1))
        sim.deliver_batches(1)
        assert cluster.seen[-1].node == 3
        assert cluster.count(ApiKey.METADATA) == 1


def test_outdated_hint_is_ignored() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster) as sim:
        sim.deliver_batches(1)
        sim.fault(moved_to(2, epoch=0))
        sim.deliver_batches(1)
        assert {seen.node for seen in cluster.seen} == {1}


def test_partition_moves_after_broker_failure() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster) as sim:
        first = sim.deliver_batches(1)
        sim.fault(Fault(hold=True))
        values = first + sim.send_batches(4)
        sim.steps(20)
        cluster.stop(1)
        log = cluster.logs["t", 0]
        cluster.move("t", 0, 2)
        assert log.end == 15
        sim.finish()
        check_log(sim, values)


def test_transient_metadata_error_does_not_lose_a_response() -> None:
    """Topic ids in the response are those of the request, not those of the current metadata."""
    with world(metadata_max_age_ms=100) as sim:
        sim.deliver_batches(1)
        sim.fault(Fault(hold=True))
        sim.send_batches(1)
        sim.steps(5)
        sim.cluster.metadata_errors["t"] = ErrorCode.unknown_topic_or_partition
        sim.run(lambda: "t" not in sim.client.metadata.cluster.topics, 0.05)
        sim.cluster.release()
        sim.finish()
        assert sim.statuses() == {PERSISTED: 6}


def test_unknown_producer_id_starts_a_new_epoch(sim: World) -> None:
    sim.send_batches(2, partition=1)
    sim.deliver_batches(2)
    sim.fault(Fault(error=ErrorCode.unknown_producer_id))
    sim.deliver_batches(3)
    batch_headers = [BatchHeader.parse(data) for data in sim.cluster.logs["t", 0].batches]
    assert [(h.producer_epoch, h.base_sequence) for h in batch_headers] == [
        (0, 0),
        (0, 3),
        (1, 0),
        (1, 3),
        (1, 6),
    ]
    sim.deliver_batches(1, partition=1)
    other = BatchHeader.parse(sim.cluster.logs["t", 1].batches[-1])
    assert (other.producer_epoch, other.base_sequence) == (0, 6)
    assert sim.statuses() == {PERSISTED: sim.appended}


def test_new_producer_id_follows_the_last_epoch(sim: World) -> None:
    sim.session.identity.epoch = LAST_EPOCH
    sim.deliver_batches(1)
    old = sim.session.identity.producer_id
    sim.fault(Fault(error=ErrorCode.unknown_producer_id))
    sim.deliver_batches(2)
    batch_headers = [BatchHeader.parse(data) for data in sim.cluster.logs["t", 0].batches]
    sequences = [(h.producer_id, h.producer_epoch, h.base_sequence) for h in batch_headers]
    assert sequences == [(old, LAST_EPOCH, 0), (old + 1, 0, 0), (old + 1, 0, 3)]


def test_two_partitions_bump_at_the_last_epoch(sim: World) -> None:
    sim.session.identity.epoch = LAST_EPOCH
    sim.send_batches(1, partition=0)
    sim.deliver_batches(1, partition=1)
    old = sim.session.identity.producer_id
    sim.fault(Fault(error=ErrorCode.unknown_producer_id))
    sim.send_batches(1, partition=0)
    sim.deliver_batches(1, partition=1)
    for log in (sim.cluster.logs["t", 0], sim.cluster.logs["t", 1]):
        ids = [(h.producer_id, h.producer_epoch) for h in map(BatchHeader.parse, log.batches)]
        assert ids == [(old, LAST_EPOCH), (old + 1, 0)]
    assert sim.statuses() == {PERSISTED: 12}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.request_timed_out,
        ErrorCode.concurrent_transactions,
    ],
)
def test_producer_id_request_is_retried(code: int) -> None:
    cluster = FakeCluster(topics={"t": 1})
    cluster.init_errors.extend([code] * 3)
    with world(cluster) as sim:
        sim.deliver_batches(1)
        requests = cluster.count(ApiKey.INIT_PRODUCER_ID)
        assert requests == 4


def test_request_timeout_closes_connection_and_resends() -> None:
    with world(request_timeout_ms=1_000, delivery_timeout_ms=60_000) as sim:
        first = sim.deliver_batches(1)
        sim.fault(Fault(hold=True))
        values = first + sim.send_batches(3)
        sim.finish(tick=0.05)
        check_log(sim, values)
        latest = sim.cluster.seen[-1].at - sim.cluster.seen[1].at
        assert 1.0 <= latest < 3.0
        assert dict(sim.report().errors)["DISCONNECTED"] == 3


def test_leader_change_in_metadata_waits_for_old_leader() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster, metadata_max_age_ms=50, max_in_flight_requests_per_connection=2) as sim:
        first = sim.deliver_batches(1)
        sim.fault(Fault(hold=True))
        values = first + sim.send_batches(4)
        sim.run(lambda: len(cluster.seen) == 3)
        cluster.move("t", 0, 2)
        sim.run(lambda: sim.client.metadata.cluster.leader("t", 0) == 2)
        sim.steps(50)
        assert {seen.node for seen in cluster.seen} == {1}
        cluster.release()
        sim.finish()
        assert {seen.node for seen in cluster.seen[3:]} == {2}
        check_log(sim, values)


def test_retry_stays_within_the_batches_that_brokers_remember() -> None:
    """The batch is in the log with four behind it; four new ones behind its retry would be too
    many.
    """
    with world(request_timeout_ms=1_000) as sim:
        first = sim.deliver_batches(1)
        timed_out = Fault(error=ErrorCode.request_timed_out, append=True)
        sim.fault(timed_out, *[None] * 4, Fault(hold=True), *[None] * 3, Fault(lose=True))
        values = first + sim.deliver_batches(15)
        check_log(sim, values)
