"""A paused process (a frozen container, a migrating VM) reads before it checks timeouts."""

import pytest

from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import world


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
