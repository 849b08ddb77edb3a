"""Records keep append order across sessions of a client, even if brokers lose producer state."""

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import record_errors, tolerant

SEEDS = 30
PARTITIONS = 2
DENIED = ErrorCode.topic_authorization_failed
TOLERANT = tolerant(None)
NAMED = record_errors(1)
NOT_APPENDED = [
    ErrorCode.leader_not_available,
    ErrorCode.replica_not_available,
    ErrorCode.network_exception,
    ErrorCode.not_enough_replicas,
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.kafka_storage_error,
    ErrorCode.unknown_producer_id,
    ErrorCode.listener_not_found,
    ErrorCode.fenced_leader_epoch,
]
MAYBE_APPENDED = [
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_leader_or_follower,
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
]
BROKERS = pytest.mark.parametrize("since_2_5", [True, False], ids=["since 2.5", "before 2.5"])


def log_of(sim: World, partition: int = 0) -> list[bytes | None]:
    return sim.cluster.logs["t", partition].values()


def epochs(sim: World, partition: int = 0) -> list[int]:
    headers = map(BatchHeader.parse, sim.cluster.logs["t", partition].batches)
    return [header.producer_epoch for header in headers]


def brokers(since_2_5: bool, partitions: int = 1) -> FakeCluster:
    cluster = FakeCluster(nodes=2, topics={"t": partitions})
    for log in cluster.logs.values():
        log.since_2_5 = since_2_5
    return cluster


def kept(_: World) -> None:
    """Keep all producer state on the brokers."""


def forgotten(sim: World) -> None:
    """Drop the producer state, as after producer.id.expiration.ms."""
    sim.cluster.forget_producers()


def outdated(sim: World) -> None:
    """Restore older producer state, as after a move to a replica without the last batch."""
    for state in sim.cluster.logs["t", 0].producers.values():
        state.next -= 3
        del state.last[-1]


def moved(sim: World) -> None:
    """Move to an empty replica, because all records were deleted."""
    sim.cluster.forget_producers()
    sim.cluster.move("t", 0, 2)


@BROKERS
@pytest.mark.parametrize("lost", [kept, forgotten, outdated, moved])
@pytest.mark.parametrize(
    "fault",
    [
        None,
        Fault(error=ErrorCode.not_enough_replicas),
        Fault(error=ErrorCode.not_leader_or_follower),
        Fault(error=ErrorCode.unknown_producer_id),
        Fault(lose=True, error=ErrorCode.none),
        Fault(lose=True),
        Fault(error=ErrorCode.request_timed_out, append=True),
    ],
    ids=str,
)
def test_producer_state_of_earlier_session_does_not_matter(
    since_2_5: bool, lost: Callable[[World], None], fault: Fault | None
) -> None:
    with world(brokers(since_2_5)) as sim:
        first = sim.deliver_batches(6)
        lost(sim)
        sim.next_session()
        sim.fault(fault)
        second = sim.deliver_batches(6)
        assert log_of(sim) == first + second
        assert sim.statuses() == {DeliveryStatus.PERSISTED: sim.appended}


@BROKERS
@pytest.mark.parametrize("lost", [forgotten, moved])
def test_first_batch_after_a_pause_is_sent_alone(
    since_2_5: bool, lost: Callable[[World], None]
) -> None:
    """Within a session: brokers may have lost the producer state, and one rejects a batch."""
    with world(brokers(since_2_5)) as sim:
        values = sim.deliver_batches(6)
        lost(sim)
        sim.clock.advance(20.0)
        sim.client.metadata.request_refresh()
        sim.steps(5)
        sim.fault(Fault(error=ErrorCode.not_enough_replicas))
        values += sim.send_batches(6)
        sim.finish()
        assert log_of(sim) == values


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_enough_replicas,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.network_exception,
    ],
)
def test_batch_overtaken_by_a_later_one_is_not_written_after_it(code: int) -> None:
    """A broker that loses the producer state accepts any batch as the next one."""
    with world(brokers(since_2_5=True), max_in_flight_requests_per_connection=3) as sim:
        values = sim.deliver_batches(2)
        sim.fault(None, Fault(error=code), Fault(forget=True))
        values += sim.send_batches(3)
        sim.steps(12)
        forgotten(sim)  # so that the broker would also accept the rejected batch
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert "out of order" in str(caught.value) or code == ErrorCode.out_of_order_sequence_number
        assert log_of(sim) == values[:9] + values[12:]
        assert sim.statuses()[DeliveryStatus.NOT_PERSISTED] == 3
        sim.check_accounting()


# Ways in which a batch can end without being in a log, before the next session starts.


def rejected_last(sim: World) -> int:
    sim.fault(None, Fault(error=ErrorCode.invalid_record, extra=NAMED))
    sim.send_batches(2)
    return 1


def all_rejected_last(sim: World) -> int:
    sim.fault(None, Fault(error=ErrorCode.invalid_timestamp))
    sim.send([b"1"])
    sim.steps(3)
    sim.send([b"2"])
    return 1


def denied(sim: World) -> int:
    sim.fault(None, *[Fault(error=DENIED)] * 2)
    sim.send_batches(3)
    return 6


def denied_during_retry(sim: World) -> int:
    """Revoke the permission while a batch waits for its retry."""
    sim.fault(None, *[Fault(error=ErrorCode.not_enough_replicas)] * 40)
    sim.send_batches(3)
    sim.run(lambda: len(sim.cluster.seen) > 4)
    sim.cluster.metadata_errors["t"] = DENIED
    sim.client.metadata.request_refresh()
    sim.run(lambda: not sim.buffer.state.incomplete_batches)
    sim.cluster.faults.clear()
    sim.cluster.metadata_errors.clear()
    return 6


def halved(sim: World) -> int:
    sim.fault(None, *[Fault(error=ErrorCode.invalid_record)] * 3)
    sim.send_batches(3)
    return 1


def rejected_after_a_retry(sim: World) -> int:
    sim.fault(
        None,
        Fault(error=ErrorCode.not_enough_replicas),
        Fault(error=ErrorCode.out_of_order_sequence_number),
        Fault(error=ErrorCode.invalid_timestamp, extra=NAMED),
    )
    sim.send_batches(3)
    return 1


@pytest.mark.parametrize(
    "ends",
    [
        rejected_last,
        all_rejected_last,
        denied,
        denied_during_retry,
        halved,
        rejected_after_a_retry,
    ],
)
@BROKERS
def test_gap_is_not_passed_to_the_next_session(
    since_2_5: bool, ends: Callable[[World], int]
) -> None:
    with world(brokers(since_2_5), TOLERANT) as sim:
        sim.deliver([b"first"])
        dropped = ends(sim)
        sim.finish()
        assert sim.statuses() == {DeliveryStatus.PERSISTED: sim.appended - dropped}
        before = log_of(sim)
        sim.next_session()
        values = sim.deliver_batches(6)
        assert log_of(sim) == before + values
        assert sim.report().retries == 0


def test_each_session_has_its_own_epoch() -> None:
    """The producer id stays the same, so that brokers keep one state for many tasks."""
    with world(brokers(since_2_5=True)) as sim:
        for _ in range(3):
            sim.deliver_batches(2)
            sim.next_session()
        assert epochs(sim) == [0, 0, 1, 1, 2, 2]
        assert len(sim.cluster.logs["t", 0].producers) == 1
        sim.next_session()  # a session that sends nothing uses no epoch
        sim.deliver([b"."])
        assert epochs(sim)[-1] == 3


# Runs with random seeds.


def random_fault(random: Random) -> Fault | None:
    """Return a fault for a Produce request, or None in more than half of the cases."""
    kind = random.choice(["none"] * 6 + ["clear", "unclear", "lost", "rejected", "forget"])
    forget = random.random() < 0.2
    match kind:
        case "clear":
            return Fault(error=random.choice(NOT_APPENDED), forget=forget)
        case "unclear":
            return Fault(error=random.choice(MAYBE_APPENDED), append=random.random() < 0.5)
        case "lost":
            return Fault(lose=True, error=random.choice([None, ErrorCode.none]), forget=forget)
        case "rejected":
            return Fault(
                error=random.choice([ErrorCode.invalid_record, ErrorCode.invalid_timestamp]),
                extra=NAMED,
            )
        case "forget":
            return Fault(forget=True)
    return None


def disturb(sim: World, random: Random, states: list[object]) -> None:
    """Between two sessions, drop or restore producer state, or move partitions."""
    for topic_partition, log in sim.cluster.logs.items():
        match random.choice(["keep", "keep", "forget", "outdated", "move"]):
            case "forget":
                log.producers.clear()
            case "outdated":
                log.producers = deepcopy(random.choice(states))[topic_partition]  # type: ignore[index]
            case "move":
                sim.cluster.move(*topic_partition, 3 - log.leader)


def run(seed: int, *, since_2_5: bool) -> int:
    """Run sessions of one client with faults; return how many delivered all records."""
    random, cluster = Random(seed), brokers(since_2_5, PARTITIONS)
    options: dict[str, Any] = {
        "request_timeout_ms": 1_000,
        "retry_backoff_ms": random.choice([1, 50]),
    }
    with world(cluster, TOLERANT, **options) as sim:
        states: list[object] = [{topic_partition: {} for topic_partition in cluster.logs}]
        appended: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        delivered = 0
        for session in range(4):
            sim.fault(*[random_fault(random) for _ in range(random.randint(0, 8))])
            for burst in range(random.randint(1, 3)):
                partition = random.randrange(PARTITIONS)
                name = b"%d-%d-%d" % (seed, session, burst)
                count = 3 * random.randint(1, 6)
                values = [b"%s-%02d" % (name, n) + b"." * 265 for n in range(count)]
                try:
                    sim.send(values, partition)
                except DeliveryError:
                    break
                appended[partition] += values
                sim.steps(random.randint(0, 20), random.choice([0.005, 3.0]))
            try:
                sim.finish(0.02)
                delivered += 1
            except DeliveryError:
                sim.session.identity = type(sim.session.identity)()
            cluster.faults.clear()
            states.append(
                {
                    topic_partition: deepcopy(log.producers)
                    for topic_partition, log in cluster.logs.items()
                }
            )
            disturb(sim, random, states)
            sim.next_session()
        for partition, values in appended.items():
            there = list(dict.fromkeys(log_of(sim, partition)))
            assert there == [value for value in values if value in set(there)], (seed, partition)
        return delivered


@BROKERS
def test_acknowledged_records_are_in_append_order(since_2_5: bool) -> None:
    delivered = sum(run(seed, since_2_5=since_2_5) for seed in range(SEEDS))
    assert delivered > SEEDS


@pytest.mark.parametrize("code", [ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch])
def test_cluster_without_client_bumps_gets_new_producer_ids(code: int) -> None:
    """Tansu rejects an epoch that InitProducerId has not returned.

    No record is lost or duplicated.
    """
    with world(brokers(since_2_5=True, partitions=PARTITIONS), batch_size=60) as sim:
        first_id, values = sim.cluster.next_producer_id, [b"%d" % number for number in range(40)]
        for session in range(3):
            if session:
                sim.next_session()
            for log in sim.cluster.logs.values():
                log.granted_epochs_only = code
            for partition in range(PARTITIONS):
                sim.send(values, partition)
            sim.finish()
            assert [log_of(sim, partition) for partition in range(PARTITIONS)] == [
                values * (session + 1)
            ] * 2
            assert (sim.report().retries > 0) is (session == 1), (
                "only the first bumped epoch is rejected"
            )
        assert epochs(sim) == [0] * len(epochs(sim))
        assert sim.cluster.next_producer_id == first_id + 2


@pytest.mark.parametrize("code", [ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch])
def test_fenced_producer_without_a_transactional_id_is_named(code: int) -> None:
    with world(brokers(since_2_5=True)) as sim:
        sim.fault(Fault(error=code))
        sim.send([b"a"])
        with pytest.raises(DeliveryError, match="which has no transactional id"):
            sim.finish()
        assert log_of(sim) == []
