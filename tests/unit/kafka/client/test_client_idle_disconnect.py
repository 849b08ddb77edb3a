"""A broker may close an idle connection: this is not a failure."""

import logging

import pytest

from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import world


def disconnects(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("close ")]


def test_idle_disconnect_is_neither_failure_nor_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with world() as sim:
        sim.send_batches(1)
        sim.finish()
        sim.cluster.stop(1)
        sim.cluster.alive.add(1)
        sim.steps(20)
        assert sim.client.network.failures.reasons == {}
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
        sim.send_batches(1)
        sim.finish()
        assert sim.report().persisted == 6
        assert (sim.report().retries, dict(sim.report().errors)) == (0, {})


def test_metadata_is_requested_after_each_leader_disconnect() -> None:
    """The broker may no longer be the leader, even if earlier disconnects were harmless."""
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    with world(cluster) as sim:
        sim.send_batches(1)
        sim.finish()
        for _ in range(3):
            asked = sim.client.metadata.requests
            cluster.stop(1)
            cluster.alive.add(1)
            sim.steps(100)
            sim.send_batches(1)
            sim.finish()
            sim.steps(50)
            assert sim.client.metadata.requests > asked
        assert sim.report().retries == 0


def test_debug_log_distinguishes_idle_from_lost_connections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, debug="broker") as sim:
        sim.send_batches(1)
        sim.finish()
        sim.cluster.stop(1)
        sim.cluster.alive.add(1)
        sim.steps(20)
        idle = disconnects(caplog)
        assert all("closed while idle" in line and "lost=[]" in line for line in idle)
        assert len(idle) == 2  # the bootstrap connection and the broker's own
        caplog.clear()
        sim.fault(Fault(lose=True))
        sim.send_batches(1)
        sim.finish()
    lost, *_ = disconnects(caplog)
    assert "idle" not in lost
    assert "lost=[2]" in lost


def test_lost_response_is_a_failure() -> None:
    with world() as sim:
        sim.fault(Fault(lose=True))
        sim.send_batches(1)
        while not sim.report().retries:
            sim.step()
        assert "127.0.0.1:40001" in sim.client.network.failures.reasons
        sim.finish()
