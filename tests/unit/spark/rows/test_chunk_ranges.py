"""Small Arrow batches are combined, and large ones are read in chunks."""

import mmap
from collections.abc import Iterator
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.producer.rows import MAX_CHUNK_BYTES
from spark_kafka_sink.spark.rows.chunk_ranges import MAX_CHUNK_ROWS, chunk_ranges
from spark_kafka_sink.spark.rows.rows_from_arrow import (
    MAX_GATHERED_BYTES,
    gather_batches,
    read_chunks,
)
from tests.support.column_roles import column_roles

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def huge(rows: int, row_bytes: int) -> pa.LargeBinaryArray:
    """Create zeros of equal length per row that use no memory until written."""
    zeros = mmap.mmap(-1, rows * row_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    offsets = np.arange(rows + 1, dtype=np.int64) * row_bytes
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(zeros)]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), rows, buffers)
    return cast("pa.LargeBinaryArray", array)


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
    assert peak < 2 * MAX_GATHERED_BYTES + 1_000_000, "one chunk beside the one before it"


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


@pytest.mark.parametrize(
    ("size", "expected"), [(0, [3, 2, 4, 1]), (4, [5, 4, 1]), (100, [10])], ids=str
)
def test_small_arrow_batches_are_combined(size: int, expected: list[int]) -> None:
    values = [b"%d" % number for number in range(10)]
    whole = pa.RecordBatch.from_pydict({"value": values, "more": values})
    cuts = [(0, 3), (3, 5), (5, 9), (9, 10)]
    batches = [whole.slice(start, stop - start) for start, stop in cuts]
    gathered = list(gather_batches(batches, lambda: size))
    assert [batch.num_rows for batch in gathered] == expected
    assert pa.Table.from_batches(gathered).equals(pa.Table.from_batches([whole]))


def test_large_arrow_batches_are_separate() -> None:
    batch = pa.RecordBatch.from_arrays([huge(3, MAX_GATHERED_BYTES)], ["value"])
    batches = [batch.slice(row, 1) for row in range(3)]
    assert [combined.num_rows for combined in gather_batches(batches, lambda: 100)] == [1, 1, 1]


def test_empty_arrow_batches_are_combined() -> None:
    empty = pa.RecordBatch.from_pydict({"value": pa.array([], pa.string())})
    assert sum(batch.num_rows for batch in gather_batches([empty, empty], lambda: 100)) == 0


def test_large_arrow_batch_is_not_copied_for_a_small_one_before_it() -> None:
    small = pa.RecordBatch.from_arrays([huge(1, 10)], ["value"])
    large = pa.RecordBatch.from_arrays([huge(3, MAX_GATHERED_BYTES)], ["value"])
    gathered = list(gather_batches([small, small, large, small], lambda: 100))
    assert [batch.num_rows for batch in gathered] == [2, 3, 1]
    assert gathered[1] is large


def test_batches_are_combined_while_another_of_the_last_size_fits() -> None:
    read = []
    batch = pa.RecordBatch.from_arrays([huge(1, MAX_GATHERED_BYTES // 4 - 8)], ["value"])
    assert 4 * batch.nbytes == MAX_GATHERED_BYTES

    def source() -> Iterator[pa.RecordBatch]:
        for number in range(6):
            read.append(number)
            yield batch

    sizes = [(combined.num_rows, len(read)) for combined in gather_batches(source(), lambda: 100)]
    assert sizes == [(4, 4), (2, 6)], "the fourth is not held until the fifth is there"


def test_slow_batch_is_not_delayed() -> None:
    now = [0.0]
    batch = pa.RecordBatch.from_pydict({"value": [b"a"] * 500})

    def source() -> Iterator[pa.RecordBatch]:
        for seconds in (0.0, 0.04, 0.06, 1.0, 0.001, 0.04):
            now[0] += seconds
            yield batch

    sizes = [
        combined.num_rows for combined in gather_batches(source(), lambda: 16_384, lambda: now[0])
    ]
    assert sizes == [1_500, 500, 1_000]


@pytest.mark.parametrize(("more", "count"), [(0, 1), (1, 2)])
def test_chunk_may_have_the_maximum_size(more: int, count: int) -> None:
    offsets = 2 * 4  # as Arrow counts them
    value = b"." * (MAX_CHUNK_BYTES - offsets - 1 + more)
    batch = pa.RecordBatch.from_arrays([pa.array([value, b"."], pa.binary())], ["value"])
    assert batch.nbytes == MAX_CHUNK_BYTES + more
    assert len(list(chunk_ranges(batch, [0]))) == count
