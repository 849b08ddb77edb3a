"""Encode columns as Kafka records without Python code per record.

One Arrow cast over all fields of all rows writes the same bytes as ``DefaultRecord.writeTo``:

    length | attributes timestampDelta | offsetDelta | keyLength key | valueLength value | headers

The data buffer of the result, in row order, is the records section of a RecordBatch.

`RowBuilder` builds the rows from columns of binary views. Short fields, such as varints, are stored
inline and share views. The views of a column's entries point to the column's data. One cast joins
the views of all rows (`records.views`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.kafka.records.columns import (
    REGISTER_SIZE,
    InlineView,
    VarintBytes,
    binary_array,
    constant_bytes,
    lengths_of,
    nullable_lengths,
    offsets_of,
)
from spark_kafka_sink.kafka.records.varint import (
    build_varints,
    extremes,
    varint,
    varint_bytes,
    varint_size,
)
from spark_kafka_sink.kafka.records.views import Entries, join_views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.records.columns import Columns

    _Field: TypeAlias = "bytes | VarintBytes | Entries"
    """A constant, a few bytes per row, or a column."""


NULL = varint(-1)
"""The encoded length of a null key or value."""
MAX_OFFSET_DELTA_SIZE = 3
"""Size in bytes of the offset delta varint in batches of up to a million records."""
_ATTRIBUTES = b"\x00"
_NO_DELAY = _ATTRIBUTES + varint(0)
"""Attributes and timestamp delta of a record that has the base timestamp of its batch."""
_NO_HEADERS = varint(0)
_MAX_TIMESTAMP_SIZE = 10


class RowBuilder:
    """The fields of every row from left to right. Adjacent constants are merged into one field."""

    __slots__ = ("_fields", "_rows", "_size", "_sizes")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._fields: list[_Field] = []
        self._size = 0
        self._sizes: NDArray[np.int32] | None = None

    def constant(self, value: bytes) -> None:
        """Append the same bytes to every row."""
        self._fields.append(value)
        self._size += len(value)

    def column(self, column: pa.BinaryArray) -> None:
        """Append one entry of a column to each row."""
        self._entries(column, lengths_of(column))

    def varints(self, values: NDArray[np.int32] | NDArray[np.int64], room: int = 0) -> None:
        """Append a zig-zag varint to each row, and reserve at least `room` bytes in its view.

        The reserve keeps the layout unchanged if values grow with the number of rows.
        """
        low, high = extremes(values)
        if low == high:
            self.constant(varint(low))
            return
        encoded = varint_bytes(values, low, high)
        if encoded is None:
            self.column(build_varints(values))
            return
        self._fields.append(encoded._replace(largest=max(encoded.largest, room)))
        self._add_sizes(encoded.size.astype(np.int32))

    def nullable(self, column: pa.BinaryArray | None) -> None:
        """Append a key or a value: its length (-1 for null) and its bytes."""
        if column is None:
            self.constant(NULL)
            return
        lengths = nullable_lengths(column)
        self.varints(lengths)
        self._entries(column, np.maximum(lengths, 0) if column.null_count else lengths)

    def length_of(self, body: RowBuilder) -> None:
        """Append the length of each row of `body` as a varint."""
        if body._sizes is None:
            self.constant(varint(body._size))
        else:
            self.varints(body._sizes + np.int32(body._size))

    def join(
        self, front: RowBuilder | None = None, order: NDArray[np.intp] | None = None
    ) -> pa.BinaryArray:
        """Return the rows in `order`. In each row, the fields of `front` come first.

        A constant of at most eight bytes at the end of the rows is written before the fields of the
        next row instead, so that it shares a view with them. The constant of the last row gets its
        own view.
        """
        fields = _merged([*(front._fields if front else ()), *self._fields])
        last, tail = fields[-1] if fields else None, b""
        if isinstance(last, bytes) and len(last) <= REGISTER_SIZE:
            tail = last
            fields = _merged([tail, *fields[:-1]])
        return join_views(_share_views(fields), self._rows, order, tail)

    def _entries(self, column: pa.BinaryArray, lengths: NDArray[np.int32]) -> None:
        self._fields.append(Entries(column, lengths))
        self._add_sizes(lengths)

    def _add_sizes(self, sizes: NDArray[np.int32]) -> None:
        self._sizes = sizes if self._sizes is None else self._sizes + sizes


def _merged(fields: list[_Field]) -> list[_Field]:
    """Return the fields with adjacent constants joined."""
    merged: list[_Field] = []
    for field in fields:
        last = merged[-1] if merged else None
        if isinstance(field, bytes) and isinstance(last, bytes):
            merged[-1] = last + field
        else:
            merged.append(field)
    return merged


def _share_views(fields: list[_Field]) -> list[InlineView | Entries]:
    """Return the fields with adjacent short fields packed into inline views."""
    columns: list[InlineView | Entries] = []
    for field in _in_registers(fields):
        if isinstance(field, Entries):
            columns.append(field)
            continue
        last = columns[-1] if columns else None
        if isinstance(last, InlineView) and last.fits(field):
            last.append(field)
        else:
            columns.append(InlineView(field))
    return columns


def _in_registers(fields: list[_Field]) -> Iterator[VarintBytes | Entries]:
    """Yield the fields, with constants split into pieces of at most eight bytes."""
    for field in fields:
        if isinstance(field, bytes):
            for start in range(0, len(field), REGISTER_SIZE):
                yield constant_bytes(field[start : start + REGISTER_SIZE])
        else:
            yield field


def encode_records(
    columns: Columns,
    offset_deltas: NDArray[np.int32],
    timestamp_deltas: NDArray[np.int64] | None = None,
    order: NDArray[np.intp] | None = None,
) -> pa.BinaryArray:
    """Encode n records. Row i of the result is a whole record, including its length varint.

    Args:
        columns: the chunk of n rows.
        offset_deltas: the position of each record in its batch, shape (n,).
        timestamp_deltas: milliseconds after the batch's base timestamp, shape (n,); None for 0.
        order: row numbers in the order of the result; None for the order of the chunk.
    """
    body = RowBuilder(len(columns))
    if timestamp_deltas is None:
        body.constant(_NO_DELAY)
    else:
        body.constant(_ATTRIBUTES)
        body.varints(timestamp_deltas)
    body.varints(offset_deltas, MAX_OFFSET_DELTA_SIZE)
    body.nullable(columns.key)
    body.nullable(columns.value)
    if columns.headers is None:
        body.constant(_NO_HEADERS)
    else:
        body.column(columns.headers)
    length = RowBuilder(len(columns))
    length.length_of(body)
    return body.join(length, order)


def slice_records(encoded: pa.BinaryArray, start: int, stop: int) -> memoryview:
    """Return the bytes of encoded records start..stop, as a view of the array's data buffer."""
    offsets = offsets_of(encoded)
    data = encoded.buffers()[2]
    assert data is not None
    return memoryview(data)[int(offsets[start]) : int(offsets[stop])]


def split_records(encoded: pa.BinaryArray, bounds: Sequence[int]) -> list[memoryview]:
    """Return the encoded records bounds[i]..bounds[i + 1] as views of the data buffer."""
    ends = offsets_of(encoded)[list(bounds)].tolist()
    data = encoded.buffers()[2]
    assert data is not None
    whole = memoryview(data)
    return [whole[start:stop] for start, stop in pairwise(ends)]


def encode_headers(headers: pa.ListArray[Any]) -> pa.BinaryArray:
    """Return each row's header section: the count, and the key and value of each header.

    Args:
        headers: list<struct<key: binary, value: binary>> of n rows; a null list counts as empty.
            Header keys must not be null (the reader raises ``ColumnError``).
    """
    headers = _without_hidden(headers)
    offsets = np.asarray(headers.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    entries = cast("pa.StructArray", headers.values.slice(first, last - first))
    entry = RowBuilder(len(entries))
    entry.nullable(cast("pa.BinaryArray", entries.field(0)))
    entry.nullable(cast("pa.BinaryArray", entries.field(1)))
    flat = entry.join()
    # The bytes of a row's headers are already contiguous, so only the row offsets change.
    body = flat.buffers()[2] or pa.py_buffer(b"")
    grouped = binary_array(offsets_of(flat)[offsets - first], body)
    section = RowBuilder(len(headers))
    section.varints(np.diff(offsets))
    section.column(grouped)
    return section.join()


def _without_hidden(headers: pa.ListArray[Any]) -> pa.ListArray[Any]:
    """Return the lists, but replace null lists that hide entries by empty lists."""
    if not headers.null_count:
        return headers
    lengths = np.diff(np.asarray(headers.offsets))
    if not lengths[np.asarray(headers.is_null())].any():
        return headers
    empty = pa.scalar([], headers.type)
    return cast("pa.ListArray[Any]", pc.if_else(headers.is_valid(), headers, empty))


def size_bounds(columns: Columns) -> NDArray[np.int64]:
    """Return an upper bound for each encoded record's size in bytes, shape (n,), before the layout.

    The bound is tight to a few bytes: varints are bounded by the chunk's largest key and value.
    """
    if not len(columns):
        return np.zeros(0, np.int64)
    overhead = len(_ATTRIBUTES) + MAX_OFFSET_DELTA_SIZE
    overhead += 1 if columns.timestamps is None else _MAX_TIMESTAMP_SIZE
    overhead += len(_NO_HEADERS) if columns.headers is None else 0
    fields = []
    for column in (columns.key, columns.value):
        if column is None:
            overhead += len(NULL)
            continue
        fields.append(nullable_lengths(column, 0))
        overhead += varint_size(int(fields[-1].max()))
    if columns.headers is not None:
        fields.append(lengths_of(columns.headers))
    sizes = fields[0].astype(np.int64)
    for lengths in fields[1:]:
        sizes += lengths
    sizes += overhead + varint_size(int(sizes.max()) + overhead)
    return sizes
