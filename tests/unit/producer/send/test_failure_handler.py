"""The failure of a session, also if acknowledged records of a recreated topic are lost."""

from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.recreated_topics import WrittenTopics
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.send.failure_handler import FailureHandler
from tests.support.clock import ManualClock
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

BY_NAME = VersionRange(0, 12)
WITHOUT_IDS = VersionRange(0, 9)
SLOW_RETRIES: dict[str, Any] = {"retry_backoff_ms": 500, "retry_backoff_max_ms": 500}


def cluster_without_produce_ids() -> FakeCluster:
    """Create brokers whose Produce requests have no topic ids."""
    cluster = FakeCluster(topics={"t": 1})
    cluster.versions[ApiKey.PRODUCE] = BY_NAME
    return cluster


def cluster_without_topic_ids() -> FakeCluster:
    """Create brokers of releases before Kafka 2.8."""
    cluster = cluster_without_produce_ids()
    cluster.versions[ApiKey.METADATA] = WITHOUT_IDS
    return cluster


def write_first_batch(sim: World, *faults: Fault | None) -> list[bytes]:
    """Write a batch to the partition, then add faults for the next ones."""
    values = sim.deliver_batches(1)
    sim.fault(*faults)
    return values


def recreate(sim: World) -> None:
    """Recreate the topic without updating the client's metadata."""
    sim.cluster.create("t", 4)


def refresh_metadata(sim: World) -> None:
    """Let the client receive the new topic's metadata."""
    metadata, topic_id = sim.client.metadata, sim.cluster.ids["t"]
    metadata.request_refresh()
    sim.run(lambda: "t" in metadata.cluster.topics and metadata_id(sim) == topic_id)


def metadata_id(sim: World) -> object:
    return sim.client.metadata.cluster.topics["t"].topic_id


def log_of(sim: World) -> list[bytes | None]:
    return sim.cluster.logs["t", 0].values()


def check_failure(sim: World, deleted: int) -> None:
    """Check the number of lost records in the error, and that each record has an outcome."""
    with pytest.raises(DeliveryError) as caught:
        sim.finish()
    assert caught.value.topic == "t"
    assert "was deleted and recreated during the write" in str(caught.value)
    assert f"{deleted} records of the" in str(caught.value)
    assert sum(sim.statuses().values()) == sim.appended
    sim.check_memory_accounting()


def all_delivered(sim: World) -> None:
    sim.finish()
    assert sim.statuses() == {DeliveryStatus.PERSISTED: sim.appended}


@pytest.mark.parametrize("doubtful", [0, 1, 2])
def test_records_acknowledged_by_deleted_topic_fail_the_write(doubtful: int) -> None:
    with world(**SLOW_RETRIES) as sim:
        write_first_batch(
            sim, *[None] * doubtful, Fault(error=ErrorCode.request_timed_out, append=True)
        )
        values = sim.send_batches(5)
        sim.run(lambda: len(sim.cluster.seen) == 6)
        recreate(sim)
        sim.send([b"later"])
        check_failure(sim, 15)
        assert log_of(sim) == values[3 * doubtful : 3 * doubtful + 3]


def test_acks_1_write_fails() -> None:
    with world(acks="1") as sim:
        write_first_batch(sim)
        recreate(sim)
        sim.send([b"second"])
        check_failure(sim, 3)


@pytest.mark.parametrize(
    "kind", [FakeCluster, cluster_without_produce_ids, cluster_without_topic_ids]
)
@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("lost", [Fault(lose=True), Fault(hold=True)])
def test_recreation_before_any_acknowledgement_loses_nothing(
    kind: Any, lost: Fault, append: bool
) -> None:
    """The write continues in the new topic, in order."""
    fault = (
        lost
        if append
        else Fault(lose=lost.lose, hold=lost.hold, error=ErrorCode.not_enough_replicas)
    )
    cluster = kind(topics={"t": 1}) if kind is FakeCluster else kind()
    with world(cluster, request_timeout_ms=1_000, **SLOW_RETRIES) as sim:
        sim.fault(fault)
        values = sim.send_batches(4)
        sim.run(lambda: len(sim.cluster.seen) >= 1)
        recreate(sim)
        all_delivered(sim)
        assert log_of(sim) == values


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    ],
)
def test_leader_that_does_not_yet_know_the_new_topic(sim: World, code: int) -> None:
    recreate(sim)
    refresh_metadata(sim)
    sim.fault(*[Fault(error=code)] * 3)
    values = sim.send_batches(5)
    all_delivered(sim)
    assert log_of(sim) == values


def test_late_acknowledgement_of_deleted_topic_counts() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster, metadata_max_age_ms=50) as sim:
        sim.fault(Fault(hold=True))
        sim.send_batches(1)
        sim.run(lambda: len(cluster.seen) == 1)
        cluster.create("t", 1)
        refresh_metadata(sim)
        cluster.release()
        sim.send_batches(2)
        check_failure(sim, 3)


def test_next_session_writes_to_the_new_topic(sim: World) -> None:
    """The next session itself has lost nothing."""
    write_first_batch(sim)
    recreate(sim)
    sim.next_session()
    refresh_metadata(sim)
    values = sim.send_batches(4)
    all_delivered(sim)
    assert log_of(sim) == values


def test_outdated_metadata_does_not_restore_the_old_topic() -> None:
    """The response is lost: with a new sequence the batch would be duplicated."""
    with world(metadata_max_age_ms=50, **SLOW_RETRIES) as sim:
        old = sim.cluster.ids["t"]
        recreate(sim)
        refresh_metadata(sim)
        sim.fault(Fault(lose=True))
        values = sim.send_batches(4)
        sim.run(lambda: len(sim.cluster.seen) == 1)
        sim.cluster.stale_topic_ids["t"] = old
        sim.run(lambda: metadata_id(sim) == old)
        sim.steps(200)
        sim.cluster.stale_topic_ids.clear()
        all_delivered(sim)
        assert log_of(sim) == values


def test_outdated_metadata_of_topic_deleted_before_the_write_fails_nothing() -> None:
    with world(metadata_max_age_ms=50, **SLOW_RETRIES) as sim:
        old = sim.cluster.ids["t"]
        recreate(sim)
        sim.next_session()
        refresh_metadata(sim)
        values = write_first_batch(sim)
        sim.cluster.stale_topic_ids["t"] = old
        sim.run(lambda: metadata_id(sim) == old)
        values += sim.send_batches(4)
        sim.steps(200)
        sim.cluster.stale_topic_ids.clear()
        all_delivered(sim)
        assert log_of(sim) == values


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
    ],
)
def test_by_name_temporarily_missing_topic(code: int) -> None:
    with world(cluster_without_produce_ids(), **SLOW_RETRIES) as sim:
        write_first_batch(sim, *[Fault(error=code)] * 5)
        sim.send_batches(5)
        sim.run(lambda: len(sim.cluster.seen) == 6)
        recreate(sim)
        check_failure(sim, 3)


@pytest.mark.parametrize("kind", [cluster_without_produce_ids, cluster_without_topic_ids])
def test_by_name_offsets_that_decrease_fail_the_write(kind: Any) -> None:
    """Without topic ids, only the offsets show that the topic was recreated."""
    with world(kind()) as sim:
        write_first_batch(sim)
        sim.deliver([b"more"])
        recreate(sim)
        sim.send([b"later"])
        with pytest.raises(DeliveryError, match="at offset 0, after a batch at offset 3") as caught:
            sim.finish()
        assert (caught.value.topic, caught.value.partition) == ("t", 0)


def test_written_topics_of_a_session() -> None:
    cluster = FakeCluster(topics={"t": 4, "u": 1})
    with world(cluster) as sim:
        write_first_batch(sim)
        sim.send([b"a"], 1)
        sim.deliver([b"b"], 0, "u")
        written = {
            topic.topic: (topic.topic_id, topic.records) for topic in sim.session.written_topics
        }
        assert written == {"t": (cluster.ids["t"], 4), "u": (cluster.ids["u"], 1)}


class Session:
    """The failure handler of a session without batches, and what it tells the writer."""

    def __init__(self) -> None:
        clock = ManualClock(seconds=1.0)
        self.state = SessionState(clock, lambda: None, lambda _: None)
        self.statuses = (
            PartitionStatus(topic="t", partition=0, records=3, status=DeliveryStatus.NOT_PERSISTED),
        )
        self.handler = FailureHandler(
            state=self.state,
            written=WrittenTopics(),
            transaction_manager=None,
            statuses=lambda: self.statuses,
        )


def test_first_failure_is_the_error_of_the_session() -> None:
    session = Session()
    first = DeliveryError("first")
    session.handler.record_failure(first)
    session.handler.record_failure(DeliveryError("second"))
    session.handler.add_statuses()
    assert session.handler.unreported_failure is first
    assert first.statuses == session.statuses
    assert session.state.error is None  # batches may be in flight
    session.state.end(first)
    assert not session.handler.unreported_failure


def test_crash_ends_the_session_immediately() -> None:
    session = Session()
    session.handler.record_failure(DeliveryError("a batch failed"))
    crash = DeliveryError("the sender crashed")
    session.handler.crash(crash)
    assert session.state.error is crash
    assert not session.handler.unreported_failure


def test_timeout_error_names_throttling() -> None:
    session = Session()
    expired = ProducerBatch(TopicPartition("t", 0), 0.0, 0, 0)
    text = str(session.handler.timeout_error(expired, 1_000, {"broker:9092": "refused"}))
    assert "broker:9092: refused" in text
    assert "throttled" not in text
    session.state.add_throttle_pause(200)
    text = str(session.handler.timeout_error(expired, 1_000, {}))
    assert "throttled this task for 200 ms" in text
