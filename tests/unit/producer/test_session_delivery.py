"""Delivery without failures."""

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import ColumnError, RecordTooLargeError
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.producer_id import ProducerIdState
from spark_kafka_sink.producer.rows import Rows
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


@pytest.mark.parametrize(
    ("name", "largest", "memory"),
    [("max.request.size", 3_000, 9_000), ("buffer.memory", 9_000, 3_000)],
)
def test_error_of_large_row_names_the_option_to_raise(name: str, largest: int, memory: int) -> None:
    with (
        pytest.raises(RecordTooLargeError, match=f"{name} = 3,000") as caught,
        world(batch_size=1_000, max_request_size=largest, buffer_memory=memory) as sim,
    ):
        sim.send([b"a", b"." * 5_000], 2)
    assert (caught.value.topic, caught.value.partition) == ("t", 2)
    assert "row 1 " in str(caught.value)
    is_the_topics_too = "max.message.bytes" in str(caught.value.hint)
    assert is_the_topics_too is (name == "max.request.size")


def test_error_of_large_row_names_the_topic_of_the_row() -> None:
    values = pa.array([b"a", b"." * 5_000])
    indexes = np.array([0, 1], np.int32)
    rows = Rows(columns=Columns(value=values), topics=("t", "u"), topic_indexes=indexes)
    cluster = FakeCluster(topics={"t": 1, "u": 1})
    with (
        pytest.raises(RecordTooLargeError) as caught,
        world(cluster, max_request_size=3_000) as sim,
    ):
        sim.session.append(rows)
    assert (caught.value.topic, caught.value.partition) == ("u", None)


def fail_if_called(*arguments: object) -> object:
    raise AssertionError(arguments)


def test_partitioner_function_is_not_called_for_the_error_of_a_large_row() -> None:
    with (
        pytest.raises(RecordTooLargeError),
        world(max_request_size=3_000, partitioner=f"{__name__}:fail_if_called") as sim,
    ):
        sim.send([b"." * 5_000], partition=None)


@pytest.mark.parametrize("partition", [-1, 4, 2**31 - 1, -(2**31)])
def test_error_of_an_unknown_partition_names_the_row_and_the_valid_partitions(
    partition: int,
) -> None:
    with (
        world(FakeCluster(topics={"t": 4})) as sim,
        pytest.raises(ColumnError, match=r"row 0.*0 to 3") as caught,
    ):
        sim.send([b"a", b"b"], partition)
    assert (caught.value.topic, caught.value.partition) == ("t", partition)
    assert not sim.cluster.seen
