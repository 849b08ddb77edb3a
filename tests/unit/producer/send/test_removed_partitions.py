"""A topic that is made anew with fewer partitions: what waits for one that is gone ends soon."""

from __future__ import annotations

from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.protocol.error_codes import ErrorCode
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

SLOW_RETRIES: dict[str, Any] = {"retry_backoff_ms": 500, "retry_backoff_max_ms": 500}
SOON = 15.0
"""Seconds; delivery.timeout.ms is 120."""


def shrink(one: World, count: int = 1) -> None:
    """The topic is made anew with fewer partitions, and the client has not heard of it."""
    for partition in range(4):
        del one.cluster.logs["t", partition]
    one.cluster.create("t", count)


def check_end(one: World, left: str = "partitions 0 to 0") -> None:
    before = one.clock.monotonic()
    with pytest.raises(DeliveryError, match="deleted and recreated") as caught:
        one.finish(0.02)
    assert one.clock.monotonic() - before < SOON
    assert left in str(caught.value)
    assert "leader" not in str(caught.value)
    assert sum(one.statuses().values()) == one.appended
    one.check_accounts_of_memory()


def test_rows_that_were_never_sent() -> None:
    with world(**SLOW_RETRIES) as one:
        one.send_batches(1)
        one.finish()
        shrink(one)
        one.client.metadata.refresh()
        one.send_batches(2, 3)
        check_end(one)
        assert one.statuses() == {DeliveryStatus.PERSISTED: 3, DeliveryStatus.NOT_PERSISTED: 6}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(error=ErrorCode.not_enough_replicas),
        Fault(error=ErrorCode.not_leader_or_follower),
        Fault(lose=True),
    ],
)
def test_rows_that_go_again(fault: Fault) -> None:
    with world(**SLOW_RETRIES) as one:
        one.send_batches(1, 3)
        one.finish()
        one.fault(fault)
        one.send_batches(3, 3)
        one.run(lambda: len(one.cluster.seen) > 1)
        shrink(one, 2)
        check_end(one, "partitions 0 to 1")


def test_rows_that_another_partition_can_take_go_there() -> None:
    with world(**SLOW_RETRIES, linger_ms=1_000) as one:
        one.send([b"a"], None)  # stays open, and so without a partition
        shrink(one)
        one.client.metadata.refresh()
        one.steps(100)
        one.finish()
        assert one.cluster.logs["t", 0].values() == [b"a"]


def test_a_broker_that_lags_behind_for_a_moment_ends_nothing() -> None:
    """It tells of a topic of the same name that there was before."""
    with world(metadata_max_age_ms=50, **SLOW_RETRIES) as one:
        one.send_batches(1, 3)
        one.finish()
        logs, topic_id = dict(one.cluster.logs), one.cluster.ids["t"]
        shrink(one)
        values = one.send_batches(2, 3)
        one.steps(100, 0.02)
        one.cluster.logs, one.cluster.ids["t"] = logs, topic_id
        one.finish()
        assert one.cluster.logs["t", 3].values()[3:] == values


def test_fewer_partitions_of_the_same_topic_are_a_broker_that_lags_behind() -> None:
    """Partitions were added that it has not heard of yet; a topic never loses any."""
    cluster = FakeCluster(topics={"t": 4})
    with world(cluster, metadata_max_age_ms=50, **SLOW_RETRIES) as one:
        one.send_batches(1, 3)
        one.finish()
        log = cluster.logs.pop(("t", 3))
        one.fault(Fault(error=ErrorCode.unknown_topic_or_partition))
        one.client.metadata.refresh()
        values = one.send_batches(2, 3)
        one.steps(500, 0.02)
        cluster.logs["t", 3] = log
        one.finish()
        assert log.values()[3:] == values
