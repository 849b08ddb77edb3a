"""Metadata requests: their topics, the brokers that are asked, and refreshes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
from spark_kafka_sink.kafka.client.client import Client
from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.clock import ManualClock
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.offline import config, topic
from tests.support.harness.world import World, world
from tests.support.harness.writer_thread import Writer

MAX_AGE_S = 1.0

LONG_AGE_S = 10.0


@contextmanager
def two_topics(**options: Any) -> Iterator[World]:
    """Open a world whose session has written to one of two topics and refreshes every second."""
    cluster = FakeCluster(topics={"old": 1, "new": 1})
    with world(cluster, metadata_max_age_ms=int(MAX_AGE_S * 1_000), **options) as sim:
        sim.next_session(("old",))
        sim.deliver_batches(1, topic="old")
        yield sim


def delete(cluster: FakeCluster, name: str) -> None:
    del cluster.ids[name]
    for topic_partition in [
        topic_partition for topic_partition in cluster.logs if topic_partition[0] == name
    ]:
        del cluster.logs[topic_partition]


def test_deleted_topic_is_not_recreated_by_a_later_session() -> None:
    with two_topics() as sim:
        delete(sim.cluster, "old")
        sim.cluster.creates_topics = True
        sim.next_session(("new",))
        sim.cluster.requested_topics.clear()
        sim.steps(50, tick=0.1)
        assert sim.cluster.requested_topics
        assert set().union(*sim.cluster.requested_topics) == {"new"}
        assert "old" not in sim.cluster.ids
        assert "old" not in sim.client.metadata.cluster.topics


def test_session_without_topics_requests_none() -> None:
    with two_topics() as sim:
        sim.next_session(())
        sim.cluster.requested_topics.clear()
        sim.steps(50, tick=0.1)
        assert sim.cluster.requested_topics
        assert all(topics == set() for topics in sim.cluster.requested_topics)


def test_next_session_needs_no_response_for_a_known_topic() -> None:
    with world(metadata_max_age_ms=300_000) as sim:
        sim.deliver_batches(1)
        before = len(sim.cluster.requested_topics)
        for _ in range(5):
            sim.next_session(())
            sim.steps(3)
            sim.deliver_batches(1)
        assert len(sim.cluster.requested_topics) == before


def test_known_topic_is_refreshed() -> None:
    """The writer found it in the snapshot and therefore never waited for it."""
    with two_topics() as sim:
        sim.next_session(())
        sim.steps(2)
        sim.send_batches(1, topic="old")
        sim.cluster.requested_topics.clear()
        sim.steps(30, tick=0.1)
        assert sim.cluster.requested_topics
        assert all(topics == {"old"} for topics in sim.cluster.requested_topics)


def test_topic_added_during_a_request_is_requested_next() -> None:
    """Otherwise an earlier session's metadata would stay valid beyond metadata.max.age.ms."""
    with two_topics() as sim:
        sim.next_session(())
        sim.clock.advance(MAX_AGE_S)
        sim.cluster.requested_topics.clear()
        sim.step(0.0)  # sends a periodic request while no topic is wanted
        sim.add_topics(("old",))
        sim.steps(20, tick=0.001)
        assert sim.cluster.requested_topics == [set(), {"old"}]


class Idle:
    """A loop without work."""

    def run_once(self) -> None: ...

    def handle_crash(self, error: BaseException) -> None: ...

    @property
    def broker_meters(self) -> BrokerMeters:
        return BrokerMeters()

    def backlog(self, _node_id: int, _now: float) -> str:
        return ""


def test_topic_errors_end_with_the_session() -> None:
    """The next session may have permissions that this one lacked."""
    client = Client(config(bootstrap_servers="127.0.0.1:1"))
    client.attach(Idle())
    client.metadata.add_topics({"t", "refused"})
    client.metadata.cluster = ClusterSnapshot(
        topics=MappingProxyType({"t": topic("t", 1)}),
        errors=MappingProxyType({"refused": ErrorCode.topic_authorization_failed}),
    )
    client.metadata.updated_at = client.clock.monotonic()
    client.detach()
    assert dict(client.metadata.cluster.errors) == {}
    assert list(client.metadata.cluster.topics) == ["t"]
    client.close()


def test_expired_metadata_ends_with_the_session() -> None:
    """The topic may have been recreated with fewer partitions since."""
    clock = ManualClock(seconds=100.0)
    client = Client(config(bootstrap_servers="127.0.0.1:1"), clock=clock)
    client.attach(Idle())
    client.metadata.cluster = ClusterSnapshot(topics=MappingProxyType({"t": topic("t", 4)}))
    client.metadata.updated_at = clock.monotonic()
    client.detach()
    assert "t" in client.metadata.cluster.topics
    clock.advance(2.0)
    client.attach(Idle())
    assert "t" not in client.metadata.cluster.topics
    client.close()


def send_request(sim: World) -> None:
    """Let the brokers answer a metadata request without delivering the response to the client."""
    sim.clock.advance(LONG_AGE_S)
    before = sim.cluster.count(ApiKey.METADATA)
    sim.step(0.0)
    assert sim.cluster.count(ApiKey.METADATA) == before + 1


def test_refresh_is_not_completed_by_an_older_request() -> None:
    with world(metadata_max_age_ms=int(LONG_AGE_S * 1_000)) as sim:
        send_request(sim)
        sim.client.metadata.request_refresh()
        before = sim.cluster.count(ApiKey.METADATA)
        sim.steps(100, tick=0.01)
        assert sim.cluster.count(ApiKey.METADATA) == before + 1


def test_one_request_completes_all_earlier_refreshes() -> None:
    with world(metadata_max_age_ms=int(LONG_AGE_S * 1_000)) as sim:
        before = sim.cluster.count(ApiKey.METADATA)
        for _ in range(5):
            sim.client.metadata.request_refresh()
        sim.steps(100, tick=0.01)
        assert sim.cluster.count(ApiKey.METADATA) == before + 1


def test_writer_waits_for_the_response_to_its_own_request() -> None:
    """Its partition was created after the brokers had answered the request in flight."""
    cluster = FakeCluster(topics={"t": 2})
    with world(cluster, metadata_max_age_ms=int(LONG_AGE_S * 1_000)) as sim:
        with ThreadPoolExecutor(1) as pool:
            send_request(sim)
            for partition in (2, 3):
                cluster.logs["t", partition] = FakeLog(leader=1)
            writer = Writer(sim, pool)
            assert writer.finish(writer.start(lambda: sim.send([b"new"], 3))) is None
            assert writer.call(sim.session.flush) is None
        assert cluster.logs["t", 3].values() == [b"new"]


def test_every_bootstrap_address_is_tried() -> None:
    cluster = FakeCluster(nodes=3, topics={"t": 1})
    cluster.alive = {3}
    servers = "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003"
    with world(cluster, bootstrap_servers=servers) as sim:
        cluster.move("t", 0, 3)
        sim.run(lambda: sim.client.metadata.cluster.leader("t", 0) == 3)
        sim.deliver_batches(1)
        assert cluster.logs["t", 0].end == 3


def test_expired_metadata_is_fetched_again() -> None:
    with world(metadata_max_age_ms=2_000) as sim:
        before = sim.client.metadata.updates
        sim.steps(25, tick=0.1)
        assert sim.client.metadata.updates - before in {1, 2}


def test_leaderless_partition_waits() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 2})
    cluster.alive = {1}
    with world(cluster) as sim:
        sim.send_batches(1, partition=1)
        sim.steps(100, tick=0.02)
        assert cluster.logs["t", 1].end == 0
        cluster.alive = {1, 2}
        sim.finish()
        assert cluster.logs["t", 1].end == 3
