"""Rows that cannot be written fail the task before anything of them is sent."""

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ColumnError, RecordTooLargeError
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.kafka.records.record_encoder import size_bounds
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import world
from tests.unit.producer.rejections import DEAD, tolerant


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


def test_dead_letter_whose_headers_exceed_the_limit_fails_the_task() -> None:
    with (
        pytest.raises(RecordTooLargeError),
        world(FakeCluster(topics={"t": 1, DEAD: 1}), tolerant(), max_request_size=300) as sim,
    ):
        sim.send([b"." * 5_000])


def test_row_may_be_exactly_as_large_as_max_request_size() -> None:
    row = [b"." * 5_000]
    size = int(size_bounds(Columns(value=pa.array(row, pa.binary())))[0]) + HEADER_SIZE
    with world(max_request_size=size) as sim:
        sim.deliver(row)
    with (
        pytest.raises(RecordTooLargeError, match=f"is {size:,} bytes when serialized"),
        world(max_request_size=size - 1) as sim,
    ):
        sim.send(row)


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
