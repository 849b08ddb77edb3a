"""Requests to leaders that cannot be reached."""

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import world


def test_metadata_is_refreshed_until_a_dead_leader_is_replaced() -> None:
    """The cluster detects the failure late and returns the old leader until then."""
    cluster = FakeCluster(nodes=2, topics={"t": 2})
    with world(cluster) as sim:
        first = sim.deliver_batches(1)
        cluster.still_listed = {1}
        cluster.stop(1)
        values = first + sim.send_batches(3)
        sim.steps(400)
        assert not cluster.logs["t", 0].values()[3:]
        cluster.still_listed = set()
        cluster.move("t", 0, 2)
        sim.finish()
        log = cluster.logs["t", 0]
        assert log.values() == values
        assert [sequence for _, sequence, _ in log.sequences()] == [0, 3, 6, 9]
        assert sim.statuses() == {DeliveryStatus.PERSISTED: sim.appended}
        sim.check_accounting()
