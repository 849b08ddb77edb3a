"""Large Arrow batches are read in chunks."""

import pyarrow as pa
import pytest

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.producer.rows import MAX_CHUNK_BYTES
from spark_kafka_sink.spark.rows.chunk_ranges import MAX_CHUNK_ROWS, chunk_ranges
from spark_kafka_sink.spark.rows.rows_from_arrow import read_chunks
from tests.support.column_roles import column_roles
from tests.unit.spark.rows.large_arrays import huge

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("first", [0, 100])
def test_columns_over_two_gib_are_divided(first: int) -> None:
    rows, row_bytes = 5_000, 1_000_000
    ids = pa.array(range(rows), pa.int32())
    batch = pa.RecordBatch.from_arrays([huge(rows, row_bytes), ids], ["value", "partition"])
    seen = 0
    for part in read_chunks(batch.slice(first), column_roles(partition=1), SystemClock()):
        assert part.first_row == seen
        assert part.columns.value is not None
        assert part.columns.value.nbytes < 2**31
        assert part.columns.value[-1].as_buffer().size == row_bytes
        assert part.partition is not None
        assert part.partition[0].as_py() == first + seen
        seen += len(part)
    assert seen == rows - first


def test_headers_and_values_count_and_unused_columns_do_not() -> None:
    values = huge(4, 1_000_000)
    batch = pa.RecordBatch.from_arrays([values, values, values], ["value", "key", "other"])
    assert list(chunk_ranges(batch, [0])) == [(0, 4)]
    assert list(chunk_ranges(batch, [0, 1])) == [(0, 2), (2, 4)]


def test_dictionary_does_not_count_in_each_chunk() -> None:
    values = pa.array([bytes(1_999) + b"%d" % (number % 10) for number in range(5_000)])
    numbers = pa.array([number % 5_000 for number in range(100_000)], pa.int32())
    batch = pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(numbers, values)], ["value"])
    ranges = list(chunk_ranges(batch.slice(1), [0]))
    assert {stop - start for start, stop in ranges} == {1_562, 1_563}
    assert (ranges[0][0], ranges[-1][1]) == (0, 99_999)


def test_dictionary_value_counts_for_each_of_its_rows() -> None:
    numbers = pa.array([0, 0, None, 1, 1, None], pa.int8())
    column = pa.DictionaryArray.from_arrays(numbers, huge(2, 3_000_000))
    batch = pa.RecordBatch.from_arrays([column, huge(6, 1_500_000)], ["value", "key"])
    assert list(chunk_ranges(batch, [0])) == [(0, 1), (1, 3), (3, 4), (4, 6)]
    assert list(chunk_ranges(batch, [0, 1])) == [(n, n + 1) for n in range(6)]
    decoded = [
        len(part.columns.value or ()) for part in read_chunks(batch, column_roles(), SystemClock())
    ]
    assert decoded == [1, 2, 1, 2]


def test_rows_of_a_few_bytes_are_divided() -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(MAX_CHUNK_ROWS + 2, pa.binary())], ["value"])
    assert [stop - start for start, stop in chunk_ranges(batch, [0])] == [
        MAX_CHUNK_ROWS // 2 + 1
    ] * 2


def test_chunk_has_at_most_the_maximum_number_of_rows() -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(MAX_CHUNK_ROWS, pa.binary())], ["value"])
    assert list(chunk_ranges(batch, [0])) == [(0, MAX_CHUNK_ROWS)]


def test_large_arrow_batch_is_never_converted_as_a_whole() -> None:
    entry = [{"key": "trace", "value": bytes(50_000)}]
    headers = pa.array([entry] * 1_000, HEADERS)
    batch = pa.RecordBatch.from_arrays([huge(1_000, 100), headers], ["value", "headers"])
    before, peak, seen = pa.total_allocated_bytes(), 0, 0
    for rows in read_chunks(batch, column_roles(headers=1), SystemClock()):
        assert rows.columns.headers is not None
        peak = max(peak, pa.total_allocated_bytes() - before)
        seen += len(rows)
    assert seen == 1_000
    assert peak < 2 * MAX_CHUNK_BYTES + 1_000_000, "one chunk beside the one before it"


def test_single_row_is_the_minimum_chunk() -> None:
    batch = pa.RecordBatch.from_arrays([huge(3, 1_500_000_000)], ["value"])
    assert list(chunk_ranges(batch, [0])) == [(0, 1), (1, 2), (2, 3)]
    parts = list(read_chunks(batch, column_roles(), SystemClock()))
    assert [len(part) for part in parts] == [1, 1, 1]


def test_error_in_a_later_chunk_names_the_row_of_the_batch() -> None:
    topics = pa.array(["t"] * 2_999 + [None], pa.string())
    batch = pa.RecordBatch.from_arrays([huge(3_000, 1_000_000), topics], ["value", "topic"])
    with pytest.raises(ColumnError, match="row 2,999"):
        list(read_chunks(batch, column_roles(topic=1), SystemClock()))


@pytest.mark.parametrize(("more", "count"), [(0, 1), (1, 2)])
def test_chunk_may_have_the_maximum_size(more: int, count: int) -> None:
    offsets = 2 * 4  # as Arrow counts them
    value = b"." * (MAX_CHUNK_BYTES - offsets - 1 + more)
    batch = pa.RecordBatch.from_arrays([pa.array([value, b"."], pa.binary())], ["value"])
    assert batch.nbytes == MAX_CHUNK_BYTES + more
    assert len(list(chunk_ranges(batch, [0]))) == count
