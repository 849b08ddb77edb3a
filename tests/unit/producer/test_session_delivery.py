"""Delivery without failures."""

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.producer_id import ProducerIdState
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import world

PERSISTED, SENT = DeliveryStatus.PERSISTED, DeliveryStatus.SENT


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_report_contains_offsets_and_bytes(codec: str) -> None:
    with world(compression_type=codec) as sim:
        sim.deliver_batches(3)
        (part,) = sim.report().partitions
        assert (part.batches, part.first_offset, part.last_offset) == (3, 0, 8)
        assert part.bytes_sent == sum(map(len, sim.cluster.logs["t", 0].batches))
        assert (part.bytes_sent < part.bytes_uncompressed) is (codec == "lz4")


def test_topic_ids_are_used_after_all_brokers_have_them() -> None:
    cluster = FakeCluster(topics={"t": 1})
    cluster.ids["t"] = None  # type: ignore[assignment]
    with world(cluster) as sim:
        sim.deliver_batches(1)
        assert cluster.seen[0].version == 12


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_max_in_flight_requests(limit: int) -> None:
    with world(max_in_flight_requests_per_connection=limit) as sim:
        sim.deliver_batches(1)
        sim.fault(Fault(hold=True))
        values = sim.send_batches(12)
        sim.steps(40)
        assert len(sim.cluster.seen) == 1 + limit
        sim.cluster.release()
        sim.finish()
        assert sim.cluster.logs["t", 0].values()[3:] == values


def test_request_has_one_batch_per_partition_and_respects_its_size() -> None:
    with world(FakeCluster(topics={"t": 30}), max_request_size=4_000) as sim:
        for partition in range(30):
            sim.send_batches(4, partition)
        sim.finish()
        sizes = [sum(map(len, seen.batches.values())) for seen in sim.cluster.seen]
        assert max(sizes) <= 4_000
        assert max(sizes) > 3_000
        assert max(len(seen.batches) for seen in sim.cluster.seen) == 4
        sim.check_accounting()


def test_only_leaders_with_data_are_connected() -> None:
    with world(FakeCluster(nodes=6, topics={"t": 6})) as sim:
        sim.deliver_batches(1, partition=2)
        assert {seen.node for seen in sim.cluster.seen} == {3}
        # The bootstrap connection, the leader's, and at most one for metadata.
        assert len(sim.cluster.peers) <= 3


def test_acks_0_counts_as_sent_and_never_as_persisted() -> None:
    with world(acks="0") as sim:
        values = sim.deliver_batches(4)
        sim.cluster.pump()
        assert sim.cluster.logs["t", 0].values() == values
        assert sim.statuses() == {SENT: 12}
        assert {seen.acks for seen in sim.cluster.seen} == {0}
        sim.check_accounting()


def test_acks_1_has_no_sequences() -> None:
    with world(acks="1") as sim:
        sim.deliver_batches(2)
        assert sim.cluster.logs["t", 0].sequences() == [(-1, -1, 3), (-1, -1, 3)]
        assert ApiKey.INIT_PRODUCER_ID not in {api for _, api in sim.cluster.requests}
        assert sim.statuses() == {PERSISTED: 6}


@pytest.mark.parametrize("is_received_between", [True, False])
def test_producer_id_received_after_its_session_serves_the_next(is_received_between: bool) -> None:
    with world() as sim:
        sim.session.identity.state = ProducerIdState.MISSING
        sim.session.identity.is_used = False
        sim.client.network.wakeup()
        sim.sender.run_once()  # requests the id and ends before the response
        assert sim.session.identity.state is ProducerIdState.REQUESTED
        if is_received_between:
            sim.session.close()
            sim.cluster.pump()
            sim.client._poll_idle()
        sim.next_session()
        sim.deliver_batches(1)
        assert sim.statuses() == {PERSISTED: 3}
