"""The columnar encoder against the per-record reference."""

from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_encoder import (
    encode_headers,
    encode_records,
    size_bounds,
    slice_records,
)
from spark_kafka_sink.kafka.records.row_writer import RowWriter
from spark_kafka_sink.kafka.records.varint import varint, varint_size
from tests.property.strategies import Shape, columns, header_lists, messages, shapes
from tests.support import reference
from tests.support.reference import Message

PLAIN = Shape(0, 0, hide_under_nulls=False, key_column=True, null_lists=False)
INT64 = st.integers(-(2**63), 2**63 - 1)


def rows_of(array: pa.BinaryArray) -> list[bytes]:
    assert array.null_count == 0
    return cast("list[bytes]", array.to_pylist())


def zigzag_rows(numbers: NDArray[np.int32] | NDArray[np.int64]) -> list[bytes]:
    writer = RowWriter(len(numbers))
    writer.append_zigzag(numbers)
    return rows_of(writer.join())


@given(st.lists(messages, max_size=30), shapes, st.integers(0, 2**20 - 40))
@settings(max_examples=250, deadline=None)
def test_every_row_is_a_record(batch: list[Message], shape: Shape, first_delta: int) -> None:
    base = batch[0].timestamp if batch else 0
    deltas = np.arange(first_delta, first_delta + len(batch), dtype=np.int32)
    stamps = np.array([message.timestamp - base for message in batch], np.int64)
    encoded = encode_records(columns(batch, shape), deltas, stamps)
    expected = [
        reference.record(message, int(delta), base)
        for message, delta in zip(batch, deltas, strict=True)
    ]
    assert rows_of(encoded) == expected
    if batch:
        assert bytes(slice_records(encoded, 0, len(batch))) == b"".join(expected)


@given(st.lists(messages, min_size=1, max_size=30), shapes, st.booleans())
@settings(max_examples=150, deadline=None)
def test_size_bounds_are_close_upper_limits(
    batch: list[Message], shape: Shape, stamped: bool
) -> None:
    chunk = columns(batch, shape, stamped=stamped)
    deltas = np.full(len(batch), 2**20 - 1, np.int32)
    stamps = np.full(len(batch), -(2**63), np.int64) if stamped else None
    largest = np.diff(
        [0, *np.cumsum([len(row) for row in rows_of(encode_records(chunk, deltas, stamps))])]
    )
    bounds = size_bounds(chunk)
    assert (bounds >= largest).all()
    # Per row, at most the varints of total, key and value length can be too wide.
    assert (bounds - largest <= 3 * 2).all()


@pytest.mark.parametrize("size", [65_533, 65_534, 65_535, 65_536, 70_000, 2_100_000])
def test_lengths_with_varints_of_three_and_four_bytes(size: int) -> None:
    batch = [Message(b"v" * size, key=b"k"), Message(None, key=b"q" * size), Message(b"")]
    chunk = columns(batch, PLAIN, stamped=False)
    encoded = encode_records(chunk, np.arange(3, dtype=np.int32))
    expected = [reference.record(message, delta, 0) for delta, message in enumerate(batch)]
    assert rows_of(encoded) == expected
    assert (size_bounds(chunk) >= [len(row) for row in expected]).all()


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 8_191, 8_193, 70_000])
def test_offset_deltas_of_any_width(rows: int) -> None:
    chunk = Columns(value=pa.array([b"v"] * rows, pa.binary()))
    encoded = rows_of(encode_records(chunk, np.arange(rows, dtype=np.int32)))
    assert encoded == [reference.record(Message(b"v"), delta, 0) for delta in range(rows)]


def test_no_rows_have_no_bytes() -> None:
    empty = columns([], PLAIN)
    assert rows_of(encode_records(empty, np.zeros(0, np.int32), np.zeros(0, np.int64))) == []
    assert size_bounds(empty).shape == (0,)
    assert rows_of(encode_headers(header_lists([], PLAIN))) == []


@given(st.lists(st.one_of(INT64, st.integers(-70, 70)), max_size=40))
@settings(max_examples=150, deadline=None)
def test_varints_equal_the_reference(numbers: list[int]) -> None:
    encoded = zigzag_rows(np.array(numbers, np.int64))
    assert encoded == [reference.zigzag_varint(number) for number in numbers]
    assert [varint(number) for number in numbers] == encoded
    assert [varint_size(number) for number in numbers] == [len(row) for row in encoded]


def test_varints_of_int32_lengths_do_not_overflow() -> None:
    numbers = [2**31 - 1, -(2**31), 2**30]
    encoded = zigzag_rows(np.array(numbers, np.int32))
    assert encoded == [reference.zigzag_varint(number) for number in numbers]
