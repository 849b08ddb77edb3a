"""Encode columns as Kafka records without Python code per record.

One Arrow cast over all fields of all rows writes the same bytes as ``DefaultRecord.writeTo``:

    length | attributes timestampDelta | offsetDelta | keyLength key | valueLength value | headers

The data buffer of the result, in row order, is the records section of a RecordBatch.

`RowWriter` builds the rows. A record without headers ends with the byte 0. It is written before the
next record instead, so that it shares a view with that record's first fields; see `join_views`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.kafka.records.columns import lengths_of, nullable_lengths, offsets_of
from spark_kafka_sink.kafka.records.row_writer import RowWriter, group_items
from spark_kafka_sink.kafka.records.varint import varint, varint_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.records.columns import Columns

_NULL = varint(-1)
"""The encoded length of a null key or value."""
_MAX_OFFSET_DELTA_SIZE = 3
"""Size in bytes of the offset delta varint in batches of up to a million records."""
_ATTRIBUTES = b"\x00"
_NO_DELAY = _ATTRIBUTES + varint(0)
"""Attributes and timestamp delta of a record that has the base timestamp of its batch."""
_NO_HEADERS = varint(0)
_MAX_TIMESTAMP_BYTES = 10


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
    tail = _NO_HEADERS if columns.headers is None else b""
    body = RowWriter(len(columns))
    if timestamp_deltas is None:
        body.append_constant(_NO_DELAY)
    else:
        body.append_constant(_ATTRIBUTES)
        body.append_zigzag(timestamp_deltas)
    body.append_zigzag(offset_deltas)
    _append_nullable(body, columns.key)
    _append_nullable(body, columns.value)
    if columns.headers is not None:
        body.append_column(columns.headers)
    records = RowWriter(len(columns))
    records.append_constant(tail)
    records.append_zigzag(body.row_sizes() + len(tail))
    records.append_rows(body)
    return records.join(order, tail)


def _append_nullable(out: RowWriter, column: pa.BinaryArray | None) -> None:
    """Append keys or values: the length (-1 for null) and the bytes of each."""
    if column is None:
        out.append_constant(_NULL)
    else:
        out.append_sized(column, is_zigzag=True, null=-1)


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
    items = RowWriter(len(entries))
    _append_nullable(items, cast("pa.BinaryArray", entries.field(0)))
    _append_nullable(items, cast("pa.BinaryArray", entries.field(1)))
    sections = RowWriter(len(headers))
    sections.append_zigzag(np.diff(offsets))
    sections.append_column(group_items(items.join(), offsets - first))
    return sections.join()


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
    overhead = len(_ATTRIBUTES) + _MAX_OFFSET_DELTA_SIZE
    overhead += 1 if columns.timestamps is None else _MAX_TIMESTAMP_BYTES
    overhead += len(_NO_HEADERS) if columns.headers is None else 0
    fields = []
    for column in (columns.key, columns.value):
        if column is None:
            overhead += len(_NULL)
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
