"""Records stay in the order of appends over the sessions of a client, whatever brokers forget."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.producer.context import SessionSettings
from spark_kafka_sink.producer.producer_id import LAST_EPOCH
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.records.record_batch import BatchHeader
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = 30
PARTITIONS = 2
DENIED = 29
TOLERANT = SessionSettings(dead_letters=DeadLetterPolicy(tolerance=Tolerance.ALL))
NAMED = {"record_errors": [{"batch_index": 1, "batch_index_error_message": "no key"}]}
BROKERS = pytest.mark.parametrize("since_2_5", [True, False], ids=["since 2.5", "before 2.5"])


def log_of(one: World, partition: int = 0) -> list[bytes | None]:
    return one.cluster.logs["t", partition].values()


def epochs(one: World, partition: int = 0) -> list[int]:
    headers = map(BatchHeader.parse, one.cluster.logs["t", partition].batches)
    return [header.producer_epoch for header in headers]


def brokers(since_2_5: bool, partitions: int = 1) -> FakeCluster:
    cluster = FakeCluster(nodes=2, topics={"t": partitions})
    for log in cluster.logs.values():
        log.since_2_5 = since_2_5
    return cluster


def kept(_one: World) -> None:
    """The brokers remember all."""


def forgotten(one: World) -> None:
    """As after producer.id.expiration.ms."""
    one.cluster.forget_producers()


def outdated(one: World) -> None:
    """As after a move to a replica that has not seen the last batch."""
    for state in one.cluster.logs["t", 0].producers.values():
        state.next -= 3
        del state.last[-1]


def moved(one: World) -> None:
    """To a replica that has got nothing, as all was deleted."""
    one.cluster.forget_producers()
    one.cluster.move("t", 0, 2)


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
def test_what_brokers_know_of_an_earlier_session_does_not_matter(
    since_2_5: bool, lost: Callable[[World], None], fault: Fault | None
) -> None:
    with world(brokers(since_2_5)) as one:
        first = one.send_batches(6)
        one.finish()
        lost(one)
        one.next_session()
        one.fault(fault)
        second = one.send_batches(6)
        one.finish()
        assert log_of(one) == first + second
        assert one.statuses() == {DeliveryStatus.PERSISTED: one.appended}


@BROKERS
@pytest.mark.parametrize("lost", [forgotten, moved])
def test_the_first_batch_after_a_pause_goes_alone(
    since_2_5: bool, lost: Callable[[World], None]
) -> None:
    """Within a session: brokers may have lost the producer state, and one refuses a batch."""
    with world(brokers(since_2_5)) as one:
        values = one.send_batches(6)
        one.finish()
        lost(one)
        one.clock.advance(20.0)
        one.client.metadata.refresh()
        one.steps(5)
        one.fault(Fault(error=ErrorCode.not_enough_replicas))
        values += one.send_batches(6)
        one.finish()
        assert log_of(one) == values


def test_a_new_leader_gets_one_batch_first() -> None:
    with world(brokers(since_2_5=True)) as one:
        values = one.send_batches(2)
        one.finish()
        moved(one)
        one.client.metadata.refresh()
        one.steps(5)
        one.fault(Fault(error=ErrorCode.not_enough_replicas))
        values += one.send_batches(6)
        one.finish()
        assert log_of(one) == values


@pytest.mark.parametrize("refused", [19, 45, 59, 13])
def test_a_batch_that_was_passed_by_a_later_one_is_not_written_behind_it(refused: int) -> None:
    """A broker that forgets the producer in mid-stream takes any batch as the next."""
    with world(brokers(since_2_5=True), max_in_flight_requests_per_connection=3) as one:
        values = one.send_batches(2)
        one.finish()
        one.fault(None, Fault(error=refused), Fault(forget=True))
        values += one.send_batches(3)
        one.steps(12)
        forgotten(one)  # so that the broker would take the batch that was refused, too
        with pytest.raises(DeliveryError) as caught:
            one.finish()
        assert "out of order" in str(caught.value) or refused == 45
        assert log_of(one) == values[:9] + values[12:]
        assert one.statuses()[DeliveryStatus.NOT_PERSISTED] == 3
        one.check_accounts()


# How a batch ends that is in no log: what its session leaves to the next one.


def refused_last(one: World) -> int:
    one.fault(None, Fault(error=ErrorCode.invalid_record, extra=NAMED))
    one.send_batches(2)
    return 1


def all_refused_last(one: World) -> int:
    one.fault(None, Fault(error=ErrorCode.invalid_timestamp))
    one.send([b"1"])
    one.steps(3)
    one.send([b"2"])
    return 1


def denied(one: World) -> int:
    one.fault(None, *[Fault(error=DENIED)] * 2)
    one.send_batches(3)
    return 6


def denied_while_it_waits(one: World) -> int:
    """The right is revoked while a batch waits to be sent again."""
    one.fault(None, *[Fault(error=ErrorCode.not_enough_replicas)] * 40)
    one.send_batches(3)
    one.run(lambda: len(one.cluster.seen) > 4)
    one.cluster.metadata_errors["t"] = DENIED
    one.client.metadata.refresh()
    accumulator = one.session._accumulator
    one.run(lambda: not accumulator.state.incomplete)
    one.cluster.faults.clear()
    one.cluster.metadata_errors.clear()
    return 6


def halved(one: World) -> int:
    one.fault(
        None,
        Fault(error=ErrorCode.invalid_record),
        Fault(error=ErrorCode.invalid_record),
        Fault(error=ErrorCode.invalid_record),
    )
    one.send_batches(3)
    return 1


def refused_behind_a_retry(one: World) -> int:
    one.fault(
        None,
        Fault(error=ErrorCode.not_enough_replicas),
        Fault(error=ErrorCode.out_of_order_sequence_number),
        Fault(error=ErrorCode.invalid_timestamp, extra=NAMED),
    )
    one.send_batches(3)
    return 1


@pytest.mark.parametrize(
    "ends",
    [
        refused_last,
        all_refused_last,
        denied,
        denied_while_it_waits,
        halved,
        refused_behind_a_retry,
    ],
)
@BROKERS
def test_a_gap_is_not_handed_to_the_next_session(
    since_2_5: bool, ends: Callable[[World], int]
) -> None:
    with world(brokers(since_2_5), TOLERANT) as one:
        one.send([b"first"])
        one.finish()
        dropped = ends(one)
        one.finish()
        assert one.statuses() == {DeliveryStatus.PERSISTED: one.appended - dropped}
        before = log_of(one)
        one.next_session()
        values = one.send_batches(6)
        one.finish()
        assert log_of(one) == before + values
        assert one.report().retries == 0


def test_each_session_has_an_epoch_of_its_own() -> None:
    """And the producer id is the same, so that brokers keep one state for many tasks."""
    with world(brokers(since_2_5=True)) as one:
        for _ in range(3):
            one.send_batches(2)
            one.finish()
            one.next_session()
        assert epochs(one) == [0, 0, 1, 1, 2, 2]
        assert len(one.cluster.logs["t", 0].producers) == 1
        one.next_session()  # a session that sends nothing takes no epoch
        one.send([b"."])
        one.finish()
        assert epochs(one)[-1] == 3


def test_after_the_last_epoch_a_session_gets_a_new_producer_id() -> None:
    with world(brokers(since_2_5=True)) as one:
        one.send([b"first"])
        one.finish()
        one.session.producer_state.epoch = LAST_EPOCH
        one.next_session()
        one.send([b"second"])
        one.finish()
        assert log_of(one) == [b"first", b"second"]
        assert epochs(one) == [0, 0]
        assert len(one.cluster.logs["t", 0].producers) == 2


# Seeded runs.


def any_fault(random: Random) -> Fault | None:
    """What happens to a Produce request; more than half of the time nothing does."""
    kind = random.choice(["none"] * 6 + ["clear", "unclear", "lost", "refused", "forget"])
    forget = random.random() < 0.2
    match kind:
        case "clear":
            return Fault(error=random.choice([5, 9, 13, 19, 45, 56, 59, 72, 74]), forget=forget)
        case "unclear":
            return Fault(error=random.choice([3, 6, 7, 20]), append=random.random() < 0.5)
        case "lost":
            return Fault(lose=True, error=random.choice([None, 0]), forget=forget)
        case "refused":
            return Fault(error=random.choice([87, 32]), extra=NAMED)
        case "forget":
            return Fault(forget=True)
    return None


def disturb(one: World, random: Random, states: list[object]) -> None:
    """Between two sessions: brokers forget, remember what was long ago, or move."""
    for place, log in one.cluster.logs.items():
        match random.choice(["keep", "keep", "forget", "outdated", "move"]):
            case "forget":
                log.producers.clear()
            case "outdated":
                log.producers = deepcopy(random.choice(states))[place]  # type: ignore[index]
            case "move":
                one.cluster.move(*place, 3 - log.leader)


def run(seed: int, *, since_2_5: bool) -> int:
    """Sessions of one client with faults; returns how many delivered everything."""
    random, cluster = Random(seed), brokers(since_2_5, PARTITIONS)
    options: dict[str, Any] = {
        "request_timeout_ms": 1_000,
        "retry_backoff_ms": random.choice([1, 50]),
    }
    with world(cluster, TOLERANT, **options) as one:
        states: list[object] = [{place: {} for place in cluster.logs}]
        appended: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        delivered = 0
        for session in range(4):
            one.fault(*[any_fault(random) for _ in range(random.randint(0, 8))])
            for burst in range(random.randint(1, 3)):
                partition = random.randrange(PARTITIONS)
                name = b"%d-%d-%d" % (seed, session, burst)
                count = 3 * random.randint(1, 6)
                values = [b"%s-%02d" % (name, n) + b"." * 265 for n in range(count)]
                try:
                    one.send(values, partition)
                except DeliveryError:
                    break
                appended[partition] += values
                one.steps(random.randint(0, 20), random.choice([0.005, 3.0]))
            try:
                one.finish(0.02)
                delivered += 1
            except DeliveryError:
                one.session.producer_state = type(one.session.producer_state)()
            cluster.faults.clear()
            states.append({place: deepcopy(log.producers) for place, log in cluster.logs.items()})
            disturb(one, random, states)
            one.next_session()
        for partition, values in appended.items():
            there = list(dict.fromkeys(log_of(one, partition)))
            assert there == [value for value in values if value in set(there)], (seed, partition)
        return delivered


@BROKERS
def test_acknowledged_records_are_in_the_order_of_appends(since_2_5: bool) -> None:
    delivered = sum(run(seed, since_2_5=since_2_5) for seed in range(SEEDS))
    assert delivered > SEEDS
