"""Framing: a chunk of columns becomes Kafka records, one binary row each, in C.

One `binary_join_element_wise` writes what Kafka's ``DefaultRecord.writeTo`` writes per record:

    length | attributes timestampDelta | offsetDelta | keyLength key | valueLength value | headers

The data buffer of the result, in row order, is the records section of a RecordBatch.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.records.columns import Columns, nullable_lengths
from spark_kafka_sink.records.varint import (
    binary_array,
    lengths_of,
    offsets_of,
    varint,
    varint_size,
    varints,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_OFFSET_DELTA_SIZE = 3
"""Bytes of the offset delta varint up to a million records a batch."""

_ATTRIBUTES = b"\x00"
_NULL = varint(-1)
_NO_HEADERS = varint(0)


@cache
def _scalar(value: bytes) -> pa.BinaryScalar:
    return pa.scalar(value, pa.binary())


def frame(
    columns: Columns,
    offset_deltas: NDArray[np.int32],
    timestamp_deltas: NDArray[np.int64] | int,
) -> pa.BinaryArray:
    """Encode n records; row i is the whole record, its length varint included.

    Args:
        columns: the chunk, n rows.
        offset_deltas: position of each record in its batch, shape (n,).
        timestamp_deltas: milliseconds after the batch's base timestamp, shape (n,) or one for all.
    """
    body = [*_stamps(timestamp_deltas), varints(offset_deltas)]
    body += _field(columns.key)
    body += _field(columns.value)
    body.append(_scalar(_NO_HEADERS) if columns.headers is None else columns.headers)
    lengths = np.zeros(len(columns), np.int32)
    for piece in body:
        lengths += len(piece.as_py()) if isinstance(piece, pa.Scalar) else lengths_of(piece)
    pieces = [varints(lengths), *_merge_scalars(body)]
    return pc.binary_join_element_wise(*pieces, _scalar(b""))


def records_section(framed: pa.BinaryArray, start: int, stop: int) -> memoryview:
    """The bytes of encoded records start..stop, as a view of the array's data buffer."""
    offsets = offsets_of(framed)
    return memoryview(framed.buffers()[2])[int(offsets[start]) : int(offsets[stop])]


def _stamps(deltas: NDArray[np.int64] | int) -> list[pa.BinaryScalar | pa.BinaryArray]:
    if isinstance(deltas, int):
        return [_scalar(_ATTRIBUTES + varint(deltas))]
    return [_scalar(_ATTRIBUTES), varints(deltas)]


def _field(column: pa.BinaryArray | None) -> list[pa.BinaryScalar | pa.BinaryArray]:
    """A key or value: its length (-1 for null) and its bytes."""
    if column is None:
        return [_scalar(_NULL)]
    lengths = varints(nullable_lengths(column))
    # The join would turn a row with a null into null, so a null's bytes are empty instead.
    return [lengths, column.fill_null(b"") if column.null_count else column]


def _merge_scalars(
    pieces: list[pa.BinaryScalar | pa.BinaryArray],
) -> list[pa.BinaryScalar | pa.BinaryArray]:
    """Neighbouring constants become one, as each join argument costs time per row."""
    merged: list[pa.BinaryScalar | pa.BinaryArray] = []
    for piece in pieces:
        if merged and isinstance(piece, pa.Scalar) and isinstance(merged[-1], pa.Scalar):
            merged[-1] = _scalar(merged[-1].as_py() + piece.as_py())
        else:
            merged.append(piece)
    return merged


def encode_headers(headers: pa.ListArray) -> pa.BinaryArray:
    """Each row's header section: count, then (key length, key, value length, value) each.

    Args:
        headers: list<struct<key: binary, value: binary>> of n rows; a null list is an empty one.
            Header keys must not be null (``ColumnError`` is the reader's job).
    """
    offsets = _list_offsets(headers)
    first, last = int(offsets[0]), int(offsets[-1])
    entries = headers.values.slice(first, last - first)
    keys, values = entries.field(0), entries.field(1)
    pieces = [*_field(keys), *_field(values)]
    flat = pc.binary_join_element_wise(*pieces, _scalar(b""))
    counts = varints(np.diff(offsets))
    # The bytes of a row's headers already lie side by side: only the row offsets change.
    grouped = binary_array(offsets_of(flat)[offsets - first], flat.buffers()[2] or pa.py_buffer(b""))
    return pc.binary_join_element_wise(counts, grouped, _scalar(b""))


def _list_offsets(headers: pa.ListArray) -> NDArray[np.int32]:
    """The n + 1 offsets of a list array in which a null row has length 0."""
    offsets = np.asarray(headers.offsets)
    if not headers.null_count:
        return offsets
    lengths = np.diff(offsets)
    if lengths[np.asarray(headers.is_null())].any():
        # A null row over hidden entries: rebuild it without them.
        headers = pc.if_else(headers.is_valid(), headers, pa.scalar([], headers.type))
        offsets = np.asarray(headers.offsets)
    return offsets


def size_bounds(columns: Columns) -> NDArray[np.int64]:
    """Upper bound of each encoded record in bytes, shape (n,), before any plan exists.

    Tight to a few bytes: the varints are bounded by the chunk's largest key and value.
    """
    sizes = np.zeros(len(columns), np.int64)
    overhead = len(_ATTRIBUTES) + _timestamp_bound(columns) + MAX_OFFSET_DELTA_SIZE
    for column in (columns.key, columns.value):
        if column is None:
            overhead += len(_NULL)
            continue
        lengths = nullable_lengths(column)
        largest = int(lengths.max(initial=0))
        overhead += varint_size(largest)
        sizes += np.maximum(lengths, 0)
    if columns.headers is None:
        overhead += len(_NO_HEADERS)
    else:
        sizes += lengths_of(columns.headers)
    overhead += varint_size(int(sizes.max(initial=0)) + overhead)
    return sizes + overhead


def _timestamp_bound(columns: Columns) -> int:
    """A chunk's own stamps are at most days after a batch's first; a column's may be anything."""
    return 5 if columns.timestamps is None else 10
