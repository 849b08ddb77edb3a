"""Requests to leaders that cannot be reached, or whose connection breaks."""

from typing import NoReturn

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.fake import FakeCluster, FakeTransport
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
        attempts = sim.client.network.failed_attempts(sim.client.metadata.cluster.nodes[1])
        assert 1 < cluster.count(ApiKey.METADATA) <= attempts + 1
        cluster.still_listed = set()
        cluster.move("t", 0, 2)
        sim.finish()
        log = cluster.logs["t", 0]
        assert log.values() == values
        assert [sequence for _, sequence, _ in log.sequences()] == [0, 3, 6, 9]
        assert sim.statuses() == {DeliveryStatus.PERSISTED: sim.appended}
        sim.check_accounting()


def test_request_on_a_broken_connection_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        monkeypatch.undo()
        raise BrokenPipeError

    with world() as sim:
        sim.deliver_batches(1)
        monkeypatch.setattr(FakeTransport, "write", fail)
        sim.deliver_batches(1)
        report = sim.report()
        assert report.retries == 1
        assert report.metrics.request_records.count == len(sim.cluster.seen) == 2
