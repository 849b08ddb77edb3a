"""Sending and being acknowledged, when nothing goes wrong."""

from __future__ import annotations

from uuid import UUID

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import RecordTooLargeError
from spark_kafka_sink.producer.producer_id import ProducerIdState
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.records.record_batch import BatchHeader
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

PERSISTED, SENT = DeliveryStatus.PERSISTED, DeliveryStatus.SENT


def sequences(one: World, partition: int = 0) -> list[tuple[int, int, int]]:
    headers = map(BatchHeader.parse, one.cluster.logs["t", partition].batches)
    return [(h.producer_epoch, h.base_sequence, h.record_count) for h in headers]


def test_records_arrive_in_order_with_gapless_sequences() -> None:
    with world() as one:
        values = one.send_batches(7)
        one.finish()
        assert one.cluster.logs["t", 0].values() == values
        assert sequences(one) == [(0, 3 * number, 3) for number in range(7)]
        assert one.statuses() == {PERSISTED: 21}
        one.check_accounts()


def test_the_report_knows_offsets_and_bytes() -> None:
    with world() as one:
        one.send_batches(3)
        one.finish()
        (part,) = one.report().partitions
        log = one.cluster.logs["t", 0]
        assert (part.batches, part.first_offset, part.last_offset) == (3, 0, 8)
        assert part.bytes_sent == part.bytes_uncompressed == sum(map(len, log.batches))


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce(version: int) -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 2, "u": 1})
    cluster.versions[ApiKey.PRODUCE] = VersionRange(0, version)
    with world(cluster) as one:
        values = one.send_batches(2, 0), one.send_batches(2, 1), one.send_batches(1, 0, "u")
        one.finish()
        assert {seen.version for seen in cluster.seen} == {version}
        found = [cluster.logs[place].values() for place in (("t", 0), ("t", 1), ("u", 0))]
        assert found == list(values)
        assert one.statuses() == {PERSISTED: 15}


def test_topic_ids_wait_until_the_cluster_has_them() -> None:
    cluster = FakeCluster(topics={"t": 1})
    cluster.ids["t"] = None  # type: ignore[assignment]
    with world(cluster) as one:
        one.send_batches(1)
        one.finish()
        assert cluster.seen[0].version == 12


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_at_most_so_many_requests_are_under_way(limit: int) -> None:
    with world(max_in_flight_requests_per_connection=limit) as one:
        one.send_batches(1)
        one.finish()
        one.fault(Fault(hold=True))
        values = one.send_batches(12)
        one.steps(40)
        assert len(one.cluster.seen) == 1 + limit
        one.cluster.release()
        one.finish()
        assert one.cluster.logs["t", 0].values()[3:] == values


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    """An unknown producer's first sequence is taken as it comes: it must be the first."""
    with world() as one:
        one.fault(Fault(hold=True))
        one.send_batches(4)
        one.steps(40)
        assert len(one.cluster.seen) == 1
        one.cluster.release()
        one.finish()
        assert sequences(one) == [(0, 0, 3), (0, 3, 3), (0, 6, 3), (0, 9, 3)]


def test_a_request_has_one_batch_per_partition_and_keeps_to_its_size() -> None:
    with world(FakeCluster(topics={"t": 30}), max_request_size=4_000) as one:
        for partition in range(30):
            one.send_batches(4, partition)
        one.finish()
        sizes = [sum(map(len, seen.batches.values())) for seen in one.cluster.seen]
        assert max(sizes) <= 4_000
        assert max(sizes) > 3_000
        assert max(len(seen.batches) for seen in one.cluster.seen) == 4
        one.check_accounts()


def test_all_partitions_get_their_turn() -> None:
    with world(FakeCluster(topics={"t": 8}), max_request_size=1_100) as one:
        for partition in range(8):
            one.send_batches(3, partition)
        one.steps(12)
        served = {place for seen in one.cluster.seen for place in seen.batches}
        assert len(served) == 8
        one.finish()


def test_only_leaders_with_data_are_connected() -> None:
    with world(FakeCluster(nodes=6, topics={"t": 6})) as one:
        one.send_batches(1, partition=2)
        one.finish()
        assert {seen.node for seen in one.cluster.seen} == {3}
        # The bootstrap connection, the leader's, and at most one that could be asked.
        assert one.cluster.connections <= 3


def test_throttling_is_obeyed() -> None:
    with world() as one:
        one.send_batches(1)
        one.finish()
        one.fault(Fault(throttle_ms=700))
        one.send_batches(1)
        one.finish()
        throttled = one.cluster.seen[-1].at
        one.send_batches(1)
        one.finish()
        assert one.cluster.seen[-1].at - throttled >= 0.7
        assert one.report().throttle_ms == 700


def test_linger_keeps_a_batch_open() -> None:
    with world(linger_ms=500) as one:
        one.send([b"one"])
        one.steps(20, 0.01)
        assert one.cluster.seen == []
        one.send([b"two"])
        one.steps(40, 0.01)
        assert one.cluster.logs["t", 0].values() == [b"one", b"two"]
        assert len(one.cluster.seen) == 1


def test_acks_0_counts_as_sent_and_never_as_persisted() -> None:
    with world(acks="0") as one:
        values = one.send_batches(4)
        one.finish()
        one.cluster.pump()
        assert one.cluster.logs["t", 0].values() == values
        assert one.statuses() == {SENT: 12}
        assert {seen.acks for seen in one.cluster.seen} == {0}
        one.check_accounts()


def test_acks_1_has_no_sequences() -> None:
    with world(acks="1") as one:
        one.send_batches(2)
        one.finish()
        assert sequences(one) == [(-1, -1, 3), (-1, -1, 3)]
        assert ApiKey.INIT_PRODUCER_ID not in {api for _, api in one.cluster.requests}
        assert one.statuses() == {PERSISTED: 6}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches(codec: str) -> None:
    with world(compression_type=codec) as one:
        values = one.send_batches(5)
        one.finish()
        log = one.cluster.logs["t", 0]
        assert log.values() == values
        assert {BatchHeader.parse(data).codec.name.lower() for data in log.batches} == {codec}
        (part,) = one.report().partitions
        assert part.bytes_sent == sum(map(len, log.batches)) < part.bytes_uncompressed
        one.check_accounts()


def test_the_next_session_has_the_producer_id_and_a_new_epoch() -> None:
    with world() as one:
        one.send_batches(2)
        one.finish()
        one.next_session()
        one.send_batches(2)
        one.finish()
        assert sequences(one) == [(0, 0, 3), (0, 3, 3), (1, 0, 3), (1, 3, 3)]
        asked = [api for _, api in one.cluster.requests].count(ApiKey.INIT_PRODUCER_ID)
        assert asked == 1


def test_a_producer_id_that_comes_after_its_session_serves_the_next() -> None:
    with world() as one:
        one.session.producer_state.state = ProducerIdState.MISSING
        one.session.producer_state.is_used = False
        one.client.network.wakeup()
        one.session._sender.run_once()  # asks for the id and ends before the answer
        assert one.session.producer_state.state is ProducerIdState.REQUESTED
        one.next_session()
        one.send_batches(1)
        one.finish()
        assert one.statuses() == {PERSISTED: 3}


def test_a_producer_id_that_comes_between_two_sessions_is_used() -> None:
    with world() as one:
        identity = one.session.producer_state
        identity.state = ProducerIdState.MISSING
        identity.is_used = False
        one.client.network.wakeup()
        one.session._sender.run_once()
        assert identity.state is ProducerIdState.REQUESTED
        one.session.close()
        one.cluster.pump()  # the answer arrives while no session is there
        one.client._idle()
        one.next_session()
        one.send_batches(1)
        one.finish()
        assert one.statuses() == {PERSISTED: 3}


def test_a_topic_made_anew_gets_its_first_batch_alone() -> None:
    """Its broker has no sequence to judge by: it would take the second without the first."""
    with world() as one:
        one.send_batches(2)
        one.finish()
        one.cluster.create("t", 4)
        one.cluster.ids["t"] = UUID(int=0x9999)
        one.next_session()
        one.client.metadata.refresh()
        one.run(lambda: one.client.metadata.cluster.topics["t"].topic_id == UUID(int=0x9999))
        one.fault(Fault(error=ErrorCode.not_leader_or_follower))
        values = one.send_batches(5)
        one.finish()
        assert one.cluster.logs["t", 0].values() == values


@pytest.mark.parametrize(
    ("name", "largest", "memory"),
    [("max.request.size", 3_000, 9_000), ("buffer.memory", 9_000, 3_000)],
)
def test_what_is_to_be_raised_for_a_large_row(name: str, largest: int, memory: int) -> None:
    with (
        pytest.raises(RecordTooLargeError, match=f"more than {name} = 3,000") as caught,
        world(batch_size=1_000, max_request_size=largest, buffer_memory=memory) as one,
    ):
        one.send([b"." * 5_000])
    is_the_topics_too = "max.message.bytes" in str(caught.value.hint)
    assert is_the_topics_too is (name == "max.request.size")
