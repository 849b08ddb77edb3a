"""Partition reassignments and leader elections on a real Kafka and on the embedded broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.waiting import wait_until
from tools.support.kafka_cluster import AnyKafka
from tools.support.raw_client import TIMEOUT, RawClient, batch, fetch, offsets, produce

NO_ERROR = ErrorCode.none


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(nodes=3, replication_factor=3) as kafka:
        yield kafka


@pytest.fixture(params=["kafka", "embedded"])
def cluster(request: pytest.FixtureRequest) -> AnyKafka:
    name = "real_kafka3" if request.param == "kafka" else "three_nodes"
    result: AnyKafka = request.getfixturevalue(name)
    return result


@pytest.fixture
def raw(cluster: AnyKafka) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield client


def create_on(raw: RawClient, name: str, assignments: list[list[int]]) -> None:
    assigned = [{"partition_index": i, "broker_ids": nodes} for i, nodes in enumerate(assignments)]
    new = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assigned}
    response = raw.call(ApiKey.CREATE_TOPICS, 7, topics=[new], timeout=TIMEOUT)
    assert response.topics[0].error_code is NO_ERROR, response.topics[0].error_message
    wait_until(lambda: len(assignments_of(raw, name)) == len(assignments))


def assignments_of(raw: RawClient, name: str) -> dict[int, tuple[list[int], list[int], int]]:
    """Return replicas, sorted in-sync replicas and leader by partition."""
    topic = raw.call(ApiKey.METADATA, 12, topics=[{"name": name}]).topics[0]
    return {
        p.partition_index: (list(p.replica_nodes), sorted(p.isr_nodes), p.leader_id)
        for p in topic.partitions
    }


def reassign(
    raw: RawClient,
    name: str,
    index: int,
    replicas: list[int] | None,
    version: int = 1,
    **values: Any,
) -> ErrorCode:
    requested = [{"partition_index": index, "replicas": replicas}]
    topics = [{"name": name, "partitions": requested}]
    values = {"topics": topics, "timeout": TIMEOUT} | values
    response = raw.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, **values)
    result: ErrorCode = response.responses[0].partitions[0].error_code
    return result


def ongoing(raw: RawClient) -> dict[tuple[str, int], tuple[tuple[int, ...], ...]]:
    listed = raw.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=TIMEOUT)
    return {
        (topic.name, p.partition_index): (p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in listed.topics
        for p in topic.partitions
    }


def elect(raw: RawClient, name: str, index: int, kind: int = 0) -> ErrorCode:
    requested = [{"topic": name, "partitions": [index]}]
    response = raw.call(
        ApiKey.ELECT_LEADERS, 2, topic_partitions=requested, election_type=kind, timeout=TIMEOUT
    )
    result: ErrorCode = response.replica_election_results[0].partition_result[0].error_code
    return result


def test_new_partitions_with_assignments(raw: RawClient, unique_topic: str) -> None:
    create_on(raw, unique_topic, [[2, 3]])
    expected = [{"broker_ids": [3, 1]}, {"broker_ids": [1, 2]}]
    item = {"name": unique_topic, "count": 3, "assignments": expected}
    response = raw.call(ApiKey.CREATE_PARTITIONS, 3, topics=[item], timeout=TIMEOUT)
    assert response.results[0].error_code is NO_ERROR
    wait_until(lambda: len(assignments_of(raw, unique_topic)) == 3)
    assert assignments_of(raw, unique_topic) == {
        0: ([2, 3], [2, 3], 2),
        1: ([3, 1], [1, 3], 3),
        2: ([1, 2], [1, 2], 1),
    }


@pytest.mark.parametrize(
    ("before", "after"), [([1, 2], [3, 2]), ([1], [2]), ([1, 2, 3], [2]), ([1], [3, 1, 2])]
)
def test_reassigned_partition_keeps_its_records(
    cluster: AnyKafka,
    raw: RawClient,
    unique_topic: str,
    before: list[int],
    after: list[int],
) -> None:
    create_on(raw, unique_topic, [before])
    wait_until(lambda: produce(raw, unique_topic, batch(3)).error_code is NO_ERROR)
    assert reassign(raw, unique_topic, 0, after) is NO_ERROR
    wait_until(lambda: (unique_topic, 0) not in ongoing(raw))
    wait_until(lambda: assignments_of(raw, unique_topic)[0][:2] == (after, sorted(after)))
    leader = assignments_of(raw, unique_topic)[0][2]
    assert leader in after
    with RawClient(cluster.bootstrap_servers.split(",")[leader - 1]) as at_leader:
        wait_until(lambda: fetch(at_leader, unique_topic, 0).error_code is NO_ERROR)
        got = fetch(at_leader, unique_topic, 0)
        assert offsets(got.records) == [0, 1, 2]
        assert produce(at_leader, unique_topic, batch(1)).base_offset == 3


def test_replication_factor_can_be_fixed(raw: RawClient, unique_topic: str) -> None:
    create_on(raw, unique_topic, [[1, 2]])
    values = {"allow_replication_factor_change": False}
    error = reassign(raw, unique_topic, 0, [1, 2, 3], **values)
    assert error is ErrorCode.invalid_replication_factor
    assert reassign(raw, unique_topic, 0, [1, 3], **values) is NO_ERROR


def test_preferred_leader_election(raw: RawClient, unique_topic: str) -> None:
    create_on(raw, unique_topic, [[1, 2]])
    assert elect(raw, unique_topic, 0) is ErrorCode.election_not_needed
    assert elect(raw, unique_topic, 0, kind=1) is ErrorCode.election_not_needed
    assert reassign(raw, unique_topic, 0, [2, 1]) is NO_ERROR
    wait_until(lambda: assignments_of(raw, unique_topic)[0][0] == [2, 1])
    assert elect(raw, unique_topic, 0) is NO_ERROR
    wait_until(lambda: assignments_of(raw, unique_topic)[0][2] == 2)
    assert elect(raw, unique_topic, 0) is ErrorCode.election_not_needed


class TestSlowReplication:
    """States that are too short to observe on a real Kafka."""

    @pytest.fixture
    def slow(self) -> Iterator[EmbeddedBroker]:
        with EmbeddedBroker(nodes=3, follower_lag_ms=60_000) as kafka:
            yield kafka

    @pytest.fixture
    def client(self, slow: EmbeddedBroker) -> Iterator[RawClient]:
        with RawClient(slow.bootstrap_servers) as raw:
            create_on(raw, "t", [[1], [1]])
            produce(raw, "t", batch(3))
            yield raw

    def test_ongoing_reassignment_is_listed(self, slow: EmbeddedBroker, client: RawClient) -> None:
        assert reassign(client, "t", 0, [3, 2]) is NO_ERROR
        assert ongoing(client) == {("t", 0): ((3, 2, 1), (3, 2), (1,))}
        assert assignments_of(client, "t")[0] == ([3, 2, 1], [1], 1)
        assert slow.partition_state("t", 0).high_watermark == 3
        named = [{"name": "t", "partition_indexes": [1]}]
        listed = client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=named, timeout=TIMEOUT)
        assert listed.topics == ()
        slow.set_follower_lag(0)
        wait_until(lambda: not ongoing(client))
        assert assignments_of(client, "t")[0] == ([3, 2], [2, 3], 3)

    def test_changed_reassignment_replaces_the_earlier_one(
        self, slow: EmbeddedBroker, client: RawClient
    ) -> None:
        assert reassign(client, "t", 0, [3]) is NO_ERROR
        assert reassign(client, "t", 0, [2]) is NO_ERROR
        assert ongoing(client)["t", 0][1] == (2,)
        slow.set_follower_lag(0)
        wait_until(lambda: not ongoing(client))
        assert assignments_of(client, "t")[0] == ([2], [2], 2)


def test_restart_completes_reassignment(tmp_path: Path) -> None:
    options: dict[str, Any] = {"nodes": 3, "data_dir": str(tmp_path)}
    slow = EmbeddedBroker(**options, follower_lag_ms=60_000)
    with slow as kafka, RawClient(kafka.bootstrap_servers) as raw:
        create_on(raw, "t", [[1]])
        produce(raw, "t", batch(3))
        assert reassign(raw, "t", 0, [3, 2]) is NO_ERROR
    with EmbeddedBroker(**options) as kafka:
        state = kafka.partition_state("t", 0)
        assert (state.replicas, state.leader, state.end_offset) == ((3, 2), 3, 3)


def test_moved_leader_is_a_replica_after_a_restart(tmp_path: Path) -> None:
    options: dict[str, Any] = {"nodes": 3, "data_dir": str(tmp_path)}
    with EmbeddedBroker(**options) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        create_on(raw, "t", [[1, 2]])
        kafka.move_leader("t", 0, 3)
    with EmbeddedBroker(**options) as kafka:
        assert kafka.partition_state("t", 0).replicas == (3, 2)


@pytest.mark.quick
def test_election_without_partitions_includes_all() -> None:
    with EmbeddedBroker(nodes=2) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        create_on(raw, "t", [[1, 2], [1, 2]])
        kafka.move_leader("t", 1, 2)
        response = raw.call(ApiKey.ELECT_LEADERS, 2, topic_partitions=None, timeout=TIMEOUT)
        (topic,) = response.replica_election_results
        assert [(p.partition_id, p.error_code) for p in topic.partition_result] == [(1, NO_ERROR)]
        assert assignments_of(raw, "t")[1][2] == 1


def test_stopped_nodes_can_be_assigned_partitions() -> None:
    """Stopped nodes are still registered; a running node becomes the leader."""
    with EmbeddedBroker(nodes=3) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        kafka.stop_node(3)
        create_on(raw, "a", [[3, 1]])
        assert assignments_of(raw, "a")[0] == ([3, 1], [1], 1)
        only = {"name": "b", "num_partitions": -1, "replication_factor": -1}
        only["assignments"] = [{"partition_index": 0, "broker_ids": [3]}]
        response = raw.call(ApiKey.CREATE_TOPICS, 7, topics=[only], timeout=TIMEOUT)
        assert response.topics[0].error_code is ErrorCode.invalid_replica_assignment
        new = {"name": "c", "num_partitions": 4, "replication_factor": 3}
        response = raw.call(ApiKey.CREATE_TOPICS, 7, topics=[new], timeout=TIMEOUT)
        assert response.topics[0].error_code is NO_ERROR
        assert all(
            sorted(r) == [1, 2, 3] and i == [1, 2] for r, i, _ in assignments_of(raw, "c").values()
        )
        kafka.start_node(3)
        wait_until(lambda: assignments_of(raw, "c")[0][1] == [1, 2, 3])
