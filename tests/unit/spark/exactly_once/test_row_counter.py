"""Rows and topics of Arrow batches, counted while they are read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.spark.exactly_once.row_counter import RowCounter

BAD_UTF8 = [b"a\xff", b"\xc3\x28", b"\xed\xa0\x80"]


@pytest.mark.parametrize("bad", BAD_UTF8)
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_topics_of_rows_are_collected_even_if_invalid(bad: bytes, kind: pa.DataType) -> None:
    """A topic name that is not UTF-8 is an error of its row, not of the task."""
    column = pa.array([b"t", bad, None, b"u", b"t"]).view(pa.string())
    batch = pa.RecordBatch.from_arrays([encode_as(column, kind)], ["topic"])
    counted = RowCounter([batch, batch], 0)
    assert list(counted) == [batch, batch]
    assert counted.rows == 10
    assert counted.topics == frozenset({"t", "u", bad.decode(errors="replace")})


def encode_as(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_dictionary(kind):
        return column.dictionary_encode()
    if pa.types.is_large_string(kind):
        return column.cast(pa.large_binary()).view(kind)
    return column
