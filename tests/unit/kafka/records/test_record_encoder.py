"""Encoded records are split and joined without copies."""

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_encoder import encode_records, split_records
from spark_kafka_sink.kafka.records.views import constant_bytes

RECORDS = [b"one", b"", b"three", b"fo", b"five"]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_records_are_split_without_a_copy(first: int) -> None:
    encoded = pa.array(RECORDS, pa.binary()).slice(first)
    last = len(RECORDS) - first
    pieces = split_records(encoded, [0, 1, 1, last])
    rest = RECORDS[first:]
    assert [bytes(piece) for piece in pieces] == [rest[0], b"", b"".join(rest[1:])]
    data = encoded.buffers()[2]
    assert data is not None
    starts = [
        np.frombuffer(piece, np.uint8).ctypes.data for piece in (pieces[0], pieces[2]) if piece
    ]
    assert {data.address <= start < data.address + data.size for start in starts} == {True}


def test_bytes_outside_the_bounds_are_omitted() -> None:
    encoded = pa.array(RECORDS, pa.binary())
    assert [bytes(piece) for piece in split_records(encoded, [2, 4])] == [b"threefo"]
    assert split_records(encoded, [5]) == []


def test_constants_of_single_rows_are_not_kept() -> None:
    blob = bytes(3_000)
    for size in range(20, 3_000):
        key, value = pa.array([blob[: size % 30]]), pa.array([blob[:size]])
        encode_records(Columns(value=value, key=key), np.array([size % 7], np.int32))
    assert constant_bytes.cache_info().currsize <= 1_024
