"""Delivery without failures."""

from uuid import UUID

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import RecordTooLargeError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.producer.producer_id import ProducerIdState
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

PERSISTED, SENT = DeliveryStatus.PERSISTED, DeliveryStatus.SENT


def sequences(sim: World, partition: int = 0) -> list[tuple[int, int, int]]:
    headers = map(BatchHeader.parse, sim.cluster.logs["t", partition].batches)
    return [(h.producer_epoch, h.base_sequence, h.record_count) for h in headers]


def test_records_arrive_in_order_with_gapless_sequences() -> None:
    with world() as sim:
        values = sim.send_batches(7)
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == values
        assert sequences(sim) == [(0, 3 * number, 3) for number in range(7)]
        assert sim.statuses() == {PERSISTED: 21}
        sim.check_accounting()


def test_report_contains_offsets_and_bytes() -> None:
    with world() as sim:
        sim.send_batches(3)
        sim.finish()
        (part,) = sim.report().partitions
        log = sim.cluster.logs["t", 0]
        assert (part.batches, part.first_offset, part.last_offset) == (3, 0, 8)
        assert part.bytes_sent == part.bytes_uncompressed == sum(map(len, log.batches))


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce(version: int) -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 2, "u": 1})
    cluster.versions[ApiKey.PRODUCE] = VersionRange(0, version)
    with world(cluster) as sim:
        values = sim.send_batches(2, 0), sim.send_batches(2, 1), sim.send_batches(1, 0, "u")
        sim.finish()
        assert {seen.version for seen in cluster.seen} == {version}
        written = [cluster.logs[place].values() for place in (("t", 0), ("t", 1), ("u", 0))]
        assert written == list(values)
        assert sim.statuses() == {PERSISTED: 15}


def test_topic_ids_are_used_after_all_brokers_have_them() -> None:
    cluster = FakeCluster(topics={"t": 1})
    cluster.ids["t"] = None  # type: ignore[assignment]
    with world(cluster) as sim:
        sim.send_batches(1)
        sim.finish()
        assert cluster.seen[0].version == 12


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_max_in_flight_requests(limit: int) -> None:
    with world(max_in_flight_requests_per_connection=limit) as sim:
        sim.send_batches(1)
        sim.finish()
        sim.fault(Fault(hold=True))
        values = sim.send_batches(12)
        sim.steps(40)
        assert len(sim.cluster.seen) == 1 + limit
        sim.cluster.release()
        sim.finish()
        assert sim.cluster.logs["t", 0].values()[3:] == values


def test_first_batch_of_a_partition_is_sent_alone() -> None:
    """The first sequence of an unknown producer is accepted as it is, so it must be the first."""
    with world() as sim:
        sim.fault(Fault(hold=True))
        sim.send_batches(4)
        sim.steps(40)
        assert len(sim.cluster.seen) == 1
        sim.cluster.release()
        sim.finish()
        assert sequences(sim) == [(0, 0, 3), (0, 3, 3), (0, 6, 3), (0, 9, 3)]


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


def test_partitions_rotate() -> None:
    with world(FakeCluster(topics={"t": 8}), max_request_size=1_100) as sim:
        for partition in range(8):
            sim.send_batches(3, partition)
        sim.steps(12)
        served = {place for seen in sim.cluster.seen for place in seen.batches}
        assert len(served) == 8
        sim.finish()


def test_only_leaders_with_data_are_connected() -> None:
    with world(FakeCluster(nodes=6, topics={"t": 6})) as sim:
        sim.send_batches(1, partition=2)
        sim.finish()
        assert {seen.node for seen in sim.cluster.seen} == {3}
        # The bootstrap connection, the leader's, and at most one for metadata.
        assert sim.cluster.connections <= 3


def test_throttling_is_respected() -> None:
    with world() as sim:
        sim.send_batches(1)
        sim.finish()
        sim.fault(Fault(throttle_ms=700))
        sim.send_batches(1)
        sim.finish()
        throttled = sim.cluster.seen[-1].at
        sim.send_batches(1)
        sim.finish()
        assert sim.cluster.seen[-1].at - throttled >= 0.7
        assert sim.report().throttle_ms == 700


def test_linger_keeps_a_batch_open() -> None:
    with world(linger_ms=500) as sim:
        sim.send([b"one"])
        sim.steps(20, 0.01)
        assert sim.cluster.seen == []
        sim.send([b"two"])
        sim.steps(40, 0.01)
        assert sim.cluster.logs["t", 0].values() == [b"one", b"two"]
        assert len(sim.cluster.seen) == 1


def test_acks_0_counts_as_sent_and_never_as_persisted() -> None:
    with world(acks="0") as sim:
        values = sim.send_batches(4)
        sim.finish()
        sim.cluster.pump()
        assert sim.cluster.logs["t", 0].values() == values
        assert sim.statuses() == {SENT: 12}
        assert {seen.acks for seen in sim.cluster.seen} == {0}
        sim.check_accounting()


def test_acks_1_has_no_sequences() -> None:
    with world(acks="1") as sim:
        sim.send_batches(2)
        sim.finish()
        assert sequences(sim) == [(-1, -1, 3), (-1, -1, 3)]
        assert ApiKey.INIT_PRODUCER_ID not in {api for _, api in sim.cluster.requests}
        assert sim.statuses() == {PERSISTED: 6}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches(codec: str) -> None:
    with world(compression_type=codec) as sim:
        values = sim.send_batches(5)
        sim.finish()
        log = sim.cluster.logs["t", 0]
        assert log.values() == values
        assert {BatchHeader.parse(data).codec.name.lower() for data in log.batches} == {codec}
        (part,) = sim.report().partitions
        assert part.bytes_sent == sum(map(len, log.batches)) < part.bytes_uncompressed
        sim.check_accounting()


def test_next_session_has_the_same_producer_id_and_a_new_epoch() -> None:
    with world() as sim:
        sim.send_batches(2)
        sim.finish()
        sim.next_session()
        sim.send_batches(2)
        sim.finish()
        assert sequences(sim) == [(0, 0, 3), (0, 3, 3), (1, 0, 3), (1, 3, 3)]
        asked = [api for _, api in sim.cluster.requests].count(ApiKey.INIT_PRODUCER_ID)
        assert asked == 1


def test_producer_id_received_after_its_session_serves_the_next() -> None:
    with world() as sim:
        sim.session.producer_state.state = ProducerIdState.MISSING
        sim.session.producer_state.is_used = False
        sim.client.network.wakeup()
        sim.session._sender.run_once()  # requests the id and ends before the response
        assert sim.session.producer_state.state is ProducerIdState.REQUESTED
        sim.next_session()
        sim.send_batches(1)
        sim.finish()
        assert sim.statuses() == {PERSISTED: 3}


def test_producer_id_received_between_two_sessions_is_used() -> None:
    with world() as sim:
        identity = sim.session.producer_state
        identity.state = ProducerIdState.MISSING
        identity.is_used = False
        sim.client.network.wakeup()
        sim.session._sender.run_once()
        assert identity.state is ProducerIdState.REQUESTED
        sim.session.close()
        sim.cluster.pump()  # the response arrives between the sessions
        sim.client._idle()
        sim.next_session()
        sim.send_batches(1)
        sim.finish()
        assert sim.statuses() == {PERSISTED: 3}


def test_first_batch_of_recreated_topic_is_sent_alone() -> None:
    """The broker has no producer state: it would accept the second batch without the first."""
    with world() as sim:
        sim.send_batches(2)
        sim.finish()
        sim.cluster.create("t", 4)
        sim.cluster.ids["t"] = UUID(int=0x9999)
        sim.next_session()
        sim.client.metadata.refresh()
        sim.run(lambda: sim.client.metadata.cluster.topics["t"].topic_id == UUID(int=0x9999))
        sim.fault(Fault(error=ErrorCode.not_leader_or_follower))
        values = sim.send_batches(5)
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == values


@pytest.mark.parametrize(
    ("name", "largest", "memory"),
    [("max.request.size", 3_000, 9_000), ("buffer.memory", 9_000, 3_000)],
)
def test_error_of_large_row_names_the_option_to_raise(name: str, largest: int, memory: int) -> None:
    with (
        pytest.raises(RecordTooLargeError, match=f"{name} = 3,000") as caught,
        world(batch_size=1_000, max_request_size=largest, buffer_memory=memory) as sim,
    ):
        sim.send([b"." * 5_000])
    is_the_topics_too = "max.message.bytes" in str(caught.value.hint)
    assert is_the_topics_too is (name == "max.request.size")
