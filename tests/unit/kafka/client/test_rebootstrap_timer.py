"""Rebootstrapping from the bootstrap servers: KIP-899 and KIP-1102."""

from typing import Any

import pytest

from spark_kafka_sink.kafka.client.rebootstrap_timer import RebootstrapTimer
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.fake import BASE_PORT, FakeCluster
from tests.support.harness.world import world


def test_due_after_metadata_failures_for_too_long() -> None:
    timer = RebootstrapTimer(2.0)
    assert not timer.is_due(100.0)
    timer.start_timer(100.0)
    timer.start_timer(101.0)
    assert not timer.is_due(101.9)
    assert timer.is_due(102.0)
    timer.restart_timer(102.0)
    assert not timer.is_due(103.9)
    assert timer.is_due(104.0)
    timer.stop_timer()
    assert not timer.is_due(200.0)


def test_broker_can_require_rebootstrapping_once() -> None:
    timer = RebootstrapTimer(300.0)
    timer.require()
    assert timer.is_due(1.0)
    timer.restart_timer(1.0)
    assert not timer.is_due(1.0)


def test_no_rebootstrapping_without_the_strategy() -> None:
    timer = RebootstrapTimer(None)
    timer.start_timer(0.0)
    timer.require()
    assert not timer.is_due(1e9)


def test_broker_that_requires_rebootstrapping_is_replaced_by_bootstrap_servers() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 2})
    with world(cluster, metadata_max_age_ms=1_000) as sim:
        sim.send_batches(1, partition=0)
        sim.deliver_batches(1, partition=1)
        dialled = cluster.connected_ports.count(BASE_PORT)
        cluster.metadata_response_errors.append(ErrorCode.rebootstrap_required)
        sim.run(lambda: cluster.connected_ports.count(BASE_PORT) > dialled, tick=0.1)
        sim.deliver_batches(2, partition=1)
        assert cluster.logs["t", 1].end == 9


def test_requests_in_flight_are_sent_again() -> None:
    cluster = FakeCluster(nodes=1, topics={"t": 1})
    with world(cluster, metadata_max_age_ms=1_000, request_timeout_ms=60_000) as sim:
        cluster.unanswered.add(ApiKey.PRODUCE)
        sim.send_batches(2)
        sim.steps(3)
        cluster.metadata_response_errors.append(ErrorCode.rebootstrap_required)
        sim.run(lambda: not cluster.metadata_response_errors, tick=0.1)
        cluster.unanswered.clear()
        sim.finish()
        assert cluster.logs["t", 0].end == 6


def test_brokers_without_metadata_are_forgotten_after_a_while() -> None:
    cluster = FakeCluster(nodes=1, topics={"t": 1})
    options: dict[str, Any] = {
        "metadata_max_age_ms": 1_000,
        "metadata_recovery_rebootstrap_trigger_ms": 3_000,
    }
    with world(cluster, request_timeout_ms=500, **options) as sim:
        dialled = cluster.connected_ports.count(BASE_PORT)
        cluster.unanswered.add(ApiKey.METADATA)
        sim.steps(20, tick=0.1)
        assert sim.client.metadata.cluster.nodes
        sim.run(lambda: not sim.client.metadata.cluster.nodes, tick=0.1)
        cluster.unanswered.clear()
        sim.deliver_batches(1)
        assert cluster.connected_ports.count(BASE_PORT) > dialled
        assert cluster.logs["t", 0].end == 3


@pytest.mark.parametrize(("strategy", "rebootstraps"), [("none", False), ("rebootstrap", True)])
def test_strategy_decides_about_rebootstrapping(strategy: str, rebootstraps: bool) -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    options: dict[str, Any] = {"metadata_recovery_strategy": strategy, "metadata_max_age_ms": 1_000}
    with world(cluster, **options) as sim:
        cluster.stop(1)
        sim.run(lambda: set(sim.client.metadata.cluster.nodes) == {2}, tick=0.1)
        cluster.stop(2)
        cluster.connected_ports.clear()
        sim.steps(100, tick=0.1)
        assert BASE_PORT + 2 in cluster.connected_ports
        assert (BASE_PORT in cluster.connected_ports) == rebootstraps
