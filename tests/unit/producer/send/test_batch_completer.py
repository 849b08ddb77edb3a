"""Batches for partitions that no longer exist, because their topic was recreated."""

from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

SLOW_RETRIES: dict[str, Any] = {"retry_backoff_ms": 500, "retry_backoff_max_ms": 500}

SOON = 15.0
"""Seconds; delivery.timeout.ms is 120."""


def recreate_smaller(sim: World, count: int = 1) -> None:
    """Recreate the topic with fewer partitions without updating the client's metadata."""
    for partition in range(4):
        del sim.cluster.logs["t", partition]
    sim.cluster.create("t", count)


def check_end(sim: World, left: str = "partitions 0 to 0") -> None:
    before = sim.clock.monotonic()
    with pytest.raises(DeliveryError, match="deleted and recreated") as caught:
        sim.finish(0.02)
    assert sim.clock.monotonic() - before < SOON
    assert left in str(caught.value)
    assert "leader" not in str(caught.value)
    assert sum(sim.statuses().values()) == sim.appended
    sim.check_memory_accounting()


def test_rows_never_sent() -> None:
    with world(**SLOW_RETRIES) as sim:
        sim.deliver_batches(1)
        recreate_smaller(sim)
        sim.client.metadata.request_refresh()
        sim.send_batches(2, 3)
        check_end(sim)
        assert sim.statuses() == {DeliveryStatus.PERSISTED: 3, DeliveryStatus.NOT_PERSISTED: 6}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(error=ErrorCode.not_enough_replicas),
        Fault(error=ErrorCode.not_leader_or_follower),
        Fault(lose=True),
    ],
)
def test_rows_being_retried(fault: Fault) -> None:
    with world(**SLOW_RETRIES) as sim:
        sim.deliver_batches(1, 3)
        sim.fault(fault)
        sim.send_batches(3, 3)
        sim.run(lambda: len(sim.cluster.seen) > 1)
        recreate_smaller(sim, 2)
        check_end(sim, "partitions 0 to 1")


def test_rows_without_partition_are_sent_elsewhere() -> None:
    with world(**SLOW_RETRIES, linger_ms=1_000) as sim:
        sim.send([b"a"], None)  # stays open and therefore unassigned
        recreate_smaller(sim)
        sim.client.metadata.request_refresh()
        sim.steps(100)
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == [b"a"]


def test_temporarily_outdated_broker_fails_nothing() -> None:
    """The broker returns metadata of a deleted topic with the same name."""
    with world(metadata_max_age_ms=50, **SLOW_RETRIES) as sim:
        sim.deliver_batches(1, 3)
        logs, topic_id = dict(sim.cluster.logs), sim.cluster.ids["t"]
        recreate_smaller(sim)
        values = sim.send_batches(2, 3)
        sim.steps(100, 0.02)
        sim.cluster.logs, sim.cluster.ids["t"] = logs, topic_id
        sim.finish()
        assert sim.cluster.logs["t", 3].values()[3:] == values


def test_fewer_partitions_of_the_same_topic_mean_outdated_metadata() -> None:
    """The broker does not know added partitions yet; a topic never loses partitions."""
    cluster = FakeCluster(topics={"t": 4})
    with world(cluster, metadata_max_age_ms=50, **SLOW_RETRIES) as sim:
        sim.deliver_batches(1, 3)
        log = cluster.logs.pop(("t", 3))
        sim.fault(Fault(error=ErrorCode.unknown_topic_or_partition))
        sim.client.metadata.request_refresh()
        values = sim.send_batches(2, 3)
        sim.steps(500, 0.02)
        cluster.logs["t", 3] = log
        sim.finish()
        assert log.values()[3:] == values
