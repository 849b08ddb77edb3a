"""Rows that are sliced, or have long numbers."""

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.records.row_writer import RowWriter, insert_empty_rows


def test_empty_rows_are_inserted_into_a_slice() -> None:
    rows = pa.array([b"skipped", b"a", b"bc"], pa.binary()).slice(1)
    mask = np.array([True, False, True])
    assert insert_empty_rows(rows, mask).to_pylist() == [b"a", b"", b"bc"]


def test_numbers_of_more_than_16_bytes_begin_with_their_sign() -> None:
    writer = RowWriter(2)
    writer.append_big_endian(np.array([1, -1]), np.array([0, -1]), np.array([18]))
    assert writer.join().to_pylist() == [
        number.to_bytes(18, "big", signed=True) for number in (1, -1)
    ]
