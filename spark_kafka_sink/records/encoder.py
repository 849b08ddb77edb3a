"""Columns become Kafka records, one binary row each, without Python per row.

One Arrow cast over all fields of all rows writes what ``DefaultRecord.writeTo`` writes:

    length | attributes timestampDelta | offsetDelta | keyLength key | valueLength value | headers

The data buffer of the result, in row order, is the records section of a RecordBatch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.records.binary_columns import (
    binary_array,
    lengths_of,
    lengths_without_null,
    offsets_of,
)
from spark_kafka_sink.records.row_builder import NULL, RowBuilder
from spark_kafka_sink.records.varint import varint, varint_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from spark_kafka_sink.records.columns import Columns

MAX_OFFSET_DELTA_SIZE = 3
"""Bytes of the offset delta varint up to a million records a batch."""

_ATTRIBUTES = b"\x00"
_NO_DELAY = _ATTRIBUTES + varint(0)
"""Attributes and timestamp delta of a record with its batch's timestamp."""
_NO_HEADERS = varint(0)
_MAX_TIMESTAMP_SIZE = 10


def encode_records(
    columns: Columns,
    offset_deltas: NDArray[np.int32],
    timestamp_deltas: NDArray[np.int64] | None = None,
    order: NDArray[np.intp] | None = None,
) -> pa.BinaryArray:
    """Encode n records; row i of the result is a whole record, its length varint included.

    Args:
        columns: the chunk, n rows.
        offset_deltas: position of each record in its batch, shape (n,).
        timestamp_deltas: milliseconds after the batch's base timestamp, shape (n,); None: 0.
        order: row numbers in the order in which the records are wanted; None: as they are.
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


def reencode_records(tails: pa.BinaryArray, time_deltas: NDArray[np.int64]) -> pa.BinaryArray:
    """Encode records again for another batch, from what does not depend on the batch.

    Args:
        tails: key, value and headers of n records as they are on the wire.
        time_deltas: milliseconds after the batch's base timestamp, shape (n,).
    """
    body = RowBuilder(len(tails))
    body.constant(_ATTRIBUTES)
    body.varints(time_deltas)
    body.varints(np.arange(len(tails), dtype=np.int32))
    body.column(tails)
    length = RowBuilder(len(tails))
    length.length_of(body)
    return body.join(length)


def slice_records(encoded: pa.BinaryArray, start: int, stop: int) -> memoryview:
    """The bytes of encoded records start..stop, as a view of the array's data buffer."""
    offsets = offsets_of(encoded)
    data = encoded.buffers()[2]
    assert data is not None
    return memoryview(data)[int(offsets[start]) : int(offsets[stop])]


def split_records(encoded: pa.BinaryArray, bounds: Sequence[int]) -> list[memoryview]:
    """The bytes of encoded records bounds[i]..bounds[i + 1], as views of the data buffer."""
    ends = offsets_of(encoded)[list(bounds)].tolist()
    data = encoded.buffers()[2]
    assert data is not None
    whole = memoryview(data)
    return [whole[start:stop] for start, stop in pairwise(ends)]


def encode_headers(headers: pa.ListArray[Any]) -> pa.BinaryArray:
    """Each row's header section: count, then (key length, key, value length, value) each.

    Args:
        headers: list<struct<key: binary, value: binary>> of n rows; a null list is an empty one.
            Header keys must not be null (``ColumnError`` is the reader's job).
    """
    headers = _without_hidden(headers)
    offsets = np.asarray(headers.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    entries = cast("pa.StructArray", headers.values.slice(first, last - first))
    entry = RowBuilder(len(entries))
    entry.nullable(cast("pa.BinaryArray", entries.field(0)))
    entry.nullable(cast("pa.BinaryArray", entries.field(1)))
    flat = entry.join()
    # The bytes of a row's headers already lie side by side: only the row offsets change.
    body = flat.buffers()[2] or pa.py_buffer(b"")
    grouped = binary_array(offsets_of(flat)[offsets - first], body)
    section = RowBuilder(len(headers))
    section.varints(np.diff(offsets))
    section.column(grouped)
    return section.join()


def _without_hidden(headers: pa.ListArray[Any]) -> pa.ListArray[Any]:
    """The same lists; a null one that hides entries is empty instead."""
    if not headers.null_count:
        return headers
    lengths = np.diff(np.asarray(headers.offsets))
    if not lengths[np.asarray(headers.is_null())].any():
        return headers
    empty = pa.scalar([], headers.type)
    return cast("pa.ListArray[Any]", pc.if_else(headers.is_valid(), headers, empty))


def size_bounds(columns: Columns) -> NDArray[np.int64]:
    """Upper bound of each encoded record in bytes, shape (n,), before any plan exists.

    Tight to a few bytes: the varints are bounded by the chunk's largest key and value.
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
        fields.append(lengths_without_null(column))
        overhead += varint_size(int(fields[-1].max()))
    if columns.headers is not None:
        fields.append(lengths_of(columns.headers))
    sizes = fields[0].astype(np.int64)
    for lengths in fields[1:]:
        sizes += lengths
    sizes += overhead + varint_size(int(sizes.max()) + overhead)
    return sizes
