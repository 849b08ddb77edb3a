"""A topic that is deleted and made anew in mid-write: each partition starts over, in order."""

from __future__ import annotations

from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.records.record_batch import BatchHeader
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

BY_NAME = VersionRange(0, 12)
SLOW_RETRIES: dict[str, Any] = {"retry_backoff_ms": 500, "retry_backoff_max_ms": 500}


def begun(one: World, *faults: Fault | None) -> list[bytes]:
    """A partition that has taken a batch; these faults await the next ones."""
    values = one.send_batches(1)
    one.finish()
    one.fault(*faults)
    return values


def recreate(one: World) -> None:
    """The topic is made anew, and the client has not heard of it."""
    one.cluster.create("t", 4)


def learn(one: World) -> None:
    """Let the client hear of the new topic."""
    metadata, topic_id = one.client.metadata, one.cluster.ids["t"]
    metadata.refresh()
    one.run(lambda: "t" in metadata.cluster.topics and metadata_id(one) == topic_id)


def metadata_id(one: World) -> object:
    return one.client.metadata.cluster.topics["t"].topic_id


def log_of(one: World) -> list[bytes | None]:
    return one.cluster.logs["t", 0].values()


def check_start(one: World) -> None:
    """The new log begins at sequence 0 of one epoch and has no gap."""
    found = [BatchHeader.parse(data) for data in one.cluster.logs["t", 0].batches]
    assert len({header.producer_epoch for header in found}) == 1
    following = 0
    for header in found:
        assert header.base_sequence == following
        following += header.record_count


def all_delivered(one: World) -> None:
    one.finish()
    assert one.statuses() == {DeliveryStatus.PERSISTED: one.appended}


@pytest.mark.parametrize("doubtful", [0, 1, 2])
def test_what_goes_again_to_a_new_topic_is_not_numbered_after_the_old_one(doubtful: int) -> None:
    """Those beside it were acknowledged by the old topic: the new one must not miss them."""
    with world(**SLOW_RETRIES) as one:
        begun(one, *[None] * doubtful, Fault(error=7, append=True))
        values = one.send_batches(5)
        one.run(lambda: len(one.cluster.seen) == 6)
        recreate(one)
        one.send([b"later"])
        all_delivered(one)
        assert log_of(one) == [*values[3 * doubtful : 3 * doubtful + 3], b"later"]
        check_start(one)


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("lost", [Fault(lose=True), Fault(hold=True)])
def test_a_lost_answer_of_the_old_topic_is_no_doubt_about_the_new_one(
    lost: Fault, append: bool
) -> None:
    fault = lost if append else Fault(lose=lost.lose, hold=lost.hold, error=19)
    with world(request_timeout_ms=1_000, **SLOW_RETRIES) as one:
        begun(one, fault)
        values = one.send_batches(4)
        one.run(lambda: len(one.cluster.seen) >= 2)
        recreate(one)
        all_delivered(one)
        assert log_of(one) == values
        check_start(one)


def test_an_answer_of_the_old_topic_proves_nothing_of_the_new_one() -> None:
    """The new topic's first batch goes alone, whatever the old one has still to say."""
    with world(metadata_max_age_ms=50, max_in_flight_requests_per_connection=2) as one:
        begun(one, Fault(hold=True), None)
        values = one.send_batches(6)
        one.run(lambda: len(one.cluster.seen) == 3)
        recreate(one)
        learn(one)
        one.cluster.release()
        one.fault(Fault(error=19))
        all_delivered(one)
        assert log_of(one) == values[6:]
        check_start(one)


@pytest.mark.parametrize("code", [3, 6, 100, 103])
def test_a_leader_that_does_not_have_the_new_topic_yet(code: int) -> None:
    with world() as one:
        begun(one)
        recreate(one)
        learn(one)
        one.fault(*[Fault(error=code)] * 3)
        values = one.send_batches(5)
        all_delivered(one)
        assert log_of(one) == values
        check_start(one)


def test_nothing_of_the_old_numbering_is_under_way_when_the_new_one_begins() -> None:
    """The old topic's answers come from another broker, which takes its time."""
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster, metadata_max_age_ms=50, **SLOW_RETRIES) as one:
        begun(one, Fault(hold=True, error=7, append=True))
        values = one.send_batches(3)
        one.run(lambda: len(cluster.seen) == 4)
        cluster.create("t", 1)
        cluster.move("t", 0, 2)
        learn(one)
        one.steps(100)
        assert {seen.node for seen in cluster.seen} == {1}
        cluster.release()
        all_delivered(one)
        assert log_of(one) == values[:3]  # the old topic has acknowledged the others
        check_start(one)


def test_the_next_session_starts_over_too() -> None:
    with world() as one:
        begun(one)
        recreate(one)
        one.next_session()
        learn(one)
        values = one.send_batches(4)
        all_delivered(one)
        assert log_of(one) == values
        check_start(one)


def test_metadata_that_lags_behind_does_not_bring_the_old_topic_back() -> None:
    """The answer is lost: under a new number the batch would be there twice."""
    with world(metadata_max_age_ms=50, **SLOW_RETRIES) as one:
        begun(one)
        old = one.cluster.ids["t"]
        recreate(one)
        learn(one)
        one.fault(Fault(lose=True))
        values = one.send_batches(4)
        one.run(lambda: len(one.cluster.seen) == 2)
        one.cluster.told_ids["t"] = old
        one.run(lambda: metadata_id(one) == old)
        one.steps(200)
        one.cluster.told_ids.clear()
        all_delivered(one)
        assert log_of(one) == values
        check_start(one)


def test_by_name_the_new_topic_may_have_what_was_sent_before_it_was_known() -> None:
    """Brokers that know no topic ids in requests: the answer that was lost was the new topic's."""
    cluster = FakeCluster(topics={"t": 1})
    cluster.versions[ApiKey.PRODUCE] = BY_NAME
    with world(cluster, **SLOW_RETRIES) as one:
        begun(one, Fault(lose=True))
        recreate(one)
        values = one.send_batches(4)
        all_delivered(one)
        assert log_of(one) == values


@pytest.mark.parametrize("code", [3, 5, 6])
def test_by_name_a_topic_that_is_gone_for_a_while(code: int) -> None:
    cluster = FakeCluster(topics={"t": 1})
    cluster.versions[ApiKey.PRODUCE] = BY_NAME
    with world(cluster, **SLOW_RETRIES) as one:
        begun(one, *[Fault(error=code)] * 5)
        values = one.send_batches(5)
        one.run(lambda: len(cluster.seen) == 6)
        recreate(one)
        all_delivered(one)
        assert log_of(one) == values
        epochs = {BatchHeader.parse(d).producer_epoch for d in cluster.logs["t", 0].batches}
        assert max(epochs) == 1 if code == 5 else max(epochs) <= 1


def test_by_name_what_is_clean_starts_over() -> None:
    """Its neighbour was acknowledged by the old topic: the gap must not stay."""
    cluster = FakeCluster(topics={"t": 1})
    cluster.versions[ApiKey.PRODUCE] = BY_NAME
    with world(cluster, max_in_flight_requests_per_connection=2, **SLOW_RETRIES) as one:
        begun(one, Fault(error=7, append=True), None)
        values = one.send_batches(6)
        one.run(lambda: len(cluster.seen) == 3)
        one.steps(4)
        recreate(one)
        learn(one)
        all_delivered(one)
        assert log_of(one) == values[:3] + values[6:]
