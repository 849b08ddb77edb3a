"""Servers that respond wrongly or not at all, brokers that close idle connections, and pauses."""

import logging
from random import Random
from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError, ProtocolError
from spark_kafka_sink.kafka.client.cluster_snapshot import MAX_PARTITIONS, ClusterSnapshot, Node
from spark_kafka_sink.kafka.client.network_client import NetworkClient
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.messages import build
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.clock import ManualClock
from tests.support.harness import handlers
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.offline import config
from tests.support.harness.world import World, world

NODE = {"node_id": 1, "host": "h", "port": 9_092}


def metadata_response(*indexes: int, nodes: tuple[dict[str, Any], ...] = (NODE,)) -> Any:
    """Create a Metadata response for one topic with these partitions."""
    partitions = [{"partition_index": index, "leader_id": 1} for index in indexes]
    topics = [{"name": "t", "partitions": partitions}]
    return build(response_type(ApiKey.METADATA, 12), {"brokers": list(nodes), "topics": topics})


def test_with_acks_0_broker_that_reads_nothing_times_out() -> None:
    cluster = FakeCluster(topics={"t": 1})
    options: dict[str, Any] = {
        "acks": 0,
        "enable_idempotence": "false",
        "request_timeout_ms": 2_000,
    }
    with world(cluster, delivery_timeout_ms=60_000, **options) as sim:
        sim.deliver_batches(1)
        cluster.writable_bytes[1] = 100
        sim.send_batches(3)
        sim.steps(15, tick=0.1)
        assert sim.client.network.in_flight(1)
        sim.steps(10, tick=0.1)
        cluster.writable_bytes.clear()
        sim.finish(tick=0.1)
        assert sim.statuses() == {DeliveryStatus.SENT: 12}
        assert dict(sim.report().errors) == {"NOT_SENT": 1}


def test_metadata_without_brokers_is_ignored() -> None:
    """A broker that is just starting may know no brokers."""
    with world(metadata_max_age_ms=500) as sim:
        sim.deliver_batches(1)
        sim.cluster.unlisted_leaders.add(1)
        for _ in range(20):
            sim.steps(5, tick=0.1)
            sim.deliver_batches(1)
        assert sim.cluster.logs["t", 0].end == 63
        assert sim.client.metadata.cluster.nodes


def test_repeated_rebootstrap_requests_are_delayed(caplog: pytest.LogCaptureFixture) -> None:
    with world(metadata_max_age_ms=1_000) as sim:
        sim.cluster.metadata_response_errors.extend([ErrorCode.rebootstrap_required] * 10_000)
        before = sim.cluster.count(ApiKey.METADATA)
        with caplog.at_level(logging.WARNING):
            sim.steps(6_000, tick=0.01)
        requests = sim.cluster.count(ApiKey.METADATA) - before
        assert 60 <= requests <= 200
        assert 1 <= len(caplog.records) <= 4


@pytest.mark.parametrize("index", [-1, -(1 << 31), MAX_PARTITIONS, (1 << 31) - 1])
def test_invalid_partition_numbers_are_rejected(index: int) -> None:
    with pytest.raises(ProtocolError, match=str(index)):
        ClusterSnapshot().updated(metadata_response(0, index))


def test_partitions_in_any_order_and_with_gaps() -> None:
    info = ClusterSnapshot().updated(metadata_response(3, 0)).topics["t"]
    assert info.leaders == (1, -1, -1, 1)


def test_invalid_metadata_is_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with world(metadata_max_age_ms=1_000) as sim:
        right = handlers.HANDLERS[ApiKey.METADATA]

        def wrong(cluster: FakeCluster, request: Any) -> dict[str, Any]:
            tree = right(cluster, request)
            tree["topics"][0]["partitions"][0]["partition_index"] = -1
            return tree

        monkeypatch.setitem(handlers.HANDLERS, ApiKey.METADATA, wrong)
        before = sim.client.metadata.updates
        sim.steps(20, tick=0.1)
        sim.deliver_batches(1)
        assert sim.client.metadata.updates == before
        monkeypatch.setitem(handlers.HANDLERS, ApiKey.METADATA, right)
        sim.steps(20, tick=0.1)
        assert sim.client.metadata.updates > before


@pytest.mark.parametrize("number", [-1, -2, -(1 << 31)])
def test_broker_with_invalid_id_is_ignored(number: int) -> None:
    """Otherwise it would be confused with a bootstrap server, or with a missing leader."""
    nameless = {**NODE, "node_id": number}
    assert list(ClusterSnapshot().updated(metadata_response(0, nodes=(NODE, nameless))).nodes) == [
        1
    ]
    assert list(ClusterSnapshot().with_nodes([Node(number, "h", 9_092)]).nodes) == []


def test_working_broker_does_not_hide_failures_of_another() -> None:
    cluster, clock = FakeCluster(nodes=2), ManualClock(5.0)
    cluster.alive.discard(2)
    network = NetworkClient(
        config(reconnect_backoff_ms=60_000), random=Random(1), connect=cluster.connect
    )
    works, fails = [Node(number, "127.0.0.1", 40_000 + number) for number in (1, 2)]
    for node in (fails, fails, works, works, works, works):
        network.connect(node, clock.monotonic())
        network.wakeup()
        network.poll(0.0, clock.monotonic)
        cluster.pump()
    assert list(network.connected()) == [works]
    assert network.failures.reasons == {"127.0.0.1:40002": "Connection refused"}
    network.close(5.0)
    cluster.close()


def test_another_cluster_at_the_same_address_fails_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other cluster may treat batches of this producer id as duplicates.

    Later sessions of the client get the same failure, without this session's transaction.
    """
    transaction = TransactionSettings(transactional_id="t-1", timeout_ms=60_000)
    with world(transaction=transaction, metadata_max_age_ms=1_000) as sim:
        sim.deliver_batches(1)
        right = handlers.HANDLERS[ApiKey.METADATA]

        def other(cluster: FakeCluster, request: Any) -> dict[str, Any]:
            return right(cluster, request) | {"cluster_id": "other"}

        monkeypatch.setitem(handlers.HANDLERS, ApiKey.METADATA, other)
        sim.steps(30, tick=0.1)
        text = r"cluster other.* of this producer id as duplicates.*t-1 cannot be committed"
        with pytest.raises(DeliveryError, match=text):
            sim.send_batches(1)
        assert sim.client.metadata.cluster.cluster_id == "fake"
        assert "cannot be committed" not in str(sim.client.metadata.failure)


def disconnects(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("close ")]


def test_idle_disconnect_is_neither_failure_nor_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with world() as sim:
        sim.deliver_batches(1)
        sim.cluster.stop(1)
        sim.cluster.alive.add(1)
        sim.steps(20)
        assert sim.client.network.failures.reasons == {}
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
        sim.deliver_batches(1)
        assert sim.report().persisted == 6
        assert (sim.report().retries, dict(sim.report().errors)) == (0, {})


def test_metadata_is_requested_after_each_leader_disconnect() -> None:
    """The broker may no longer be the leader, even if earlier disconnects were harmless."""
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster) as sim:
        sim.deliver_batches(1)
        for _ in range(3):
            requests = sim.client.metadata.sent_requests
            cluster.stop(1)
            cluster.alive.add(1)
            sim.steps(100)
            sim.deliver_batches(1)
            sim.steps(50)
            assert sim.client.metadata.sent_requests > requests
        assert sim.report().retries == 0


def test_debug_log_distinguishes_idle_from_lost_connections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, debug="broker") as sim:
        sim.deliver_batches(1)
        sim.cluster.stop(1)
        sim.cluster.alive.add(1)
        sim.steps(20)
        idle = disconnects(caplog)
        assert all("closed while idle" in line and "lost=[]" in line for line in idle)
        assert len(idle) == 2  # the bootstrap connection and the broker's own
        caplog.clear()
        sim.fault(Fault(lose=True))
        sim.deliver_batches(1)
    lost, *_ = disconnects(caplog)
    assert "idle" not in lost
    assert "lost=[2]" in lost


def test_lost_response_is_a_failure(sim: World) -> None:
    sim.fault(Fault(lose=True))
    sim.send_batches(1)
    while not sim.report().retries:
        sim.step()
    assert "127.0.0.1:40001" in sim.client.network.failures.reasons
    sim.finish()


@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_buffered_response_is_read_before_timeouts_are_checked(idempotent: str) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(
        cluster, enable_idempotence=idempotent, max_in_flight_requests_per_connection=1
    ) as sim:
        sim.fault(Fault(hold=True))
        sim.send_batches(1)
        sim.steps(5)
        assert sim.cluster.logs["t", 0].end == 3
        sim.cluster.release()
        sim.clock.advance(31.0)
        sim.finish()
        assert sim.cluster.logs["t", 0].end == 3
        assert (sim.report().retries, dict(sim.report().errors)) == (0, {})
