"""Small Arrow batches are concatenated, unless rows would wait."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_kafka_sink.spark.rows.arrow_gathering import MAX_GATHERED_BYTES, gather_batches
from tests.unit.spark.rows.large_arrays import huge


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
