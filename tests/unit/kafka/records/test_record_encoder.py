"""Slices of encoded records."""

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.kafka.records.record_encoder import split_records

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
