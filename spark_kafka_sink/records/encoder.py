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
    build_varints,
    fits_table,
    lengths_of,
    offsets_of,
    table_varints,
    varint,
    varint_size,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_OFFSET_DELTA_SIZE = 3
"""Bytes of the offset delta varint up to a million records a batch."""

_ATTRIBUTES = b"\x00"
_NO_DELAY = _ATTRIBUTES + varint(0)
_NULL = varint(-1)
_NO_HEADERS = varint(0)
_MAX_TIMESTAMP_SIZE = 10
_PREFIXES = frozenset({_NO_DELAY, _NULL})
"""Constants that come before varints so often that a table of both together pays."""


@cache
def _scalar(value: bytes) -> pa.BinaryScalar:
    return pa.scalar(value, pa.binary())


class _Row:
    """The pieces of every row from left to right; neighbouring constants become one piece.

    Each piece costs time per row in the join, so a constant goes into the table of the varints
    that follow it where there is such a table.
    """

    __slots__ = ("_constant", "_pieces", "sizes")

    def __init__(self, rows: int) -> None:
        self.sizes = np.zeros(rows, np.int32)
        """Bytes of each row so far."""
        self._pieces: list[pa.BinaryArray | pa.BinaryScalar] = []
        self._constant = b""

    def constant(self, value: bytes) -> None:
        self._constant += value
        self.sizes += np.int32(len(value))

    def column(self, column: pa.BinaryArray) -> None:
        self._end_constant()
        self._pieces.append(column)
        self.sizes += lengths_of(column)

    def varints(self, values: NDArray[np.int32] | NDArray[np.int64]) -> None:
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if low == high:
            self.constant(varint(low))
        elif self._constant in _PREFIXES and fits_table(low, high):
            self.sizes -= np.int32(len(self._constant))
            prefix, self._constant = self._constant, b""
            self.column(table_varints(values, prefix))
        else:
            self.column(table_varints(values) if fits_table(low, high) else build_varints(values))

    def nullable(self, column: pa.BinaryArray | None) -> None:
        """A key or a value: its length, -1 for null, and its bytes."""
        if column is None:
            self.constant(_NULL)
            return
        self.varints(nullable_lengths(column))
        # The join would turn a row with a null into null, so a null's bytes are empty instead.
        self.column(column.fill_null(b"") if column.null_count else column)

    def join(self, front: _Row | None = None) -> pa.BinaryArray:
        """All rows, with another row's pieces before this one's."""
        self._end_constant()
        pieces = [*(front.pieces() if front else ()), *self._pieces]
        return pc.binary_join_element_wise(*pieces, _scalar(b""))

    def pieces(self) -> list[pa.BinaryArray | pa.BinaryScalar]:
        self._end_constant()
        return self._pieces

    def _end_constant(self) -> None:
        if self._constant:
            self._pieces.append(_scalar(self._constant))
            self._constant = b""


def frame(
    columns: Columns,
    offset_deltas: NDArray[np.int32],
    timestamp_deltas: NDArray[np.int64] | None = None,
) -> pa.BinaryArray:
    """Encode n records; row i is the whole record, its length varint included.

    Args:
        columns: the chunk, n rows.
        offset_deltas: position of each record in its batch, shape (n,).
        timestamp_deltas: milliseconds after the batch's base timestamp, shape (n,); None: 0.
    """
    body = _Row(len(columns))
    if timestamp_deltas is None:
        body.constant(_NO_DELAY)
    else:
        body.constant(_ATTRIBUTES)
        body.varints(timestamp_deltas)
    body.varints(offset_deltas)
    body.nullable(columns.key)
    body.nullable(columns.value)
    if columns.headers is None:
        body.constant(_NO_HEADERS)
    else:
        body.column(columns.headers)
    length = _Row(len(columns))
    length.varints(body.sizes)
    return body.join(front=length)


def records_section(framed: pa.BinaryArray, start: int, stop: int) -> memoryview:
    """The bytes of encoded records start..stop, as a view of the array's data buffer."""
    offsets = offsets_of(framed)
    return memoryview(framed.buffers()[2])[int(offsets[start]) : int(offsets[stop])]


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
    entry = _Row(len(keys))
    entry.nullable(keys)
    entry.nullable(values)
    flat = entry.join()
    # The bytes of a row's headers already lie side by side: only the row offsets change.
    grouped = binary_array(offsets_of(flat)[offsets - first], flat.buffers()[2] or pa.py_buffer(b""))
    section = _Row(len(headers))
    section.varints(np.diff(offsets))
    section.column(grouped)
    return section.join()


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
    overhead = len(_ATTRIBUTES) + MAX_OFFSET_DELTA_SIZE
    overhead += 1 if columns.timestamps is None else _MAX_TIMESTAMP_SIZE
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

