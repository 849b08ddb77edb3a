"""A process that stood still (a frozen container, a VM that moves) reads before it gives up."""

from __future__ import annotations

import pytest

from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import world


@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_an_answer_in_the_socket_is_taken_before_timeouts_are_looked_for(idempotent: str) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(
        cluster, enable_idempotence=idempotent, max_in_flight_requests_per_connection=1
    ) as one:
        one.fault(Fault(hold=True))
        one.send_batches(1)
        one.steps(5)
        assert one.cluster.logs["t", 0].end == 3
        one.cluster.release()
        one.clock.advance(31.0)
        one.finish()
        assert one.cluster.logs["t", 0].end == 3
        assert (one.report().retries, dict(one.report().errors)) == (0, {})
