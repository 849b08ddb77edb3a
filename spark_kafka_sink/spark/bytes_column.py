"""Text and binary columns as Arrow binary arrays with 32-bit offsets; bytes are not copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.records.binary_columns import binary_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

LARGEST_SLICE = 4 << 20
"""Bytes of a slice's columns together: what the producer encodes at once.

Whatever is made of rows on their way, such as encoded headers, then takes a few times that and not
a few times an Arrow batch, which may have gigabytes.
"""
MOST_ROWS = 1 << 17
"""Rows of a slice, for rows of a few bytes: each needs some numbers of eight bytes on its way."""


def slices(batch: pa.RecordBatch, columns: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First row and row after the last of slices whose columns are not too large together."""
    encoded = [each for each in columns if pa.types.is_dictionary(batch.schema.field(each).type)]
    plain = batch.select([each for each in columns if each not in encoded])
    ends = [_decoded_ends(cast("Any", batch.column(each))) for each in encoded]

    def size(start: int, stop: int) -> int:
        decoded = sum(int(each[stop] - each[start]) for each in ends)
        return plain.slice(start, stop - start).nbytes + decoded

    yield from _halved(size, 0, batch.num_rows)


def _halved(size: Callable[[int, int], int], start: int, stop: int) -> Iterator[tuple[int, int]]:
    rows = stop - start
    if rows <= 1 or (rows <= MOST_ROWS and size(start, stop) <= LARGEST_SLICE):
        yield start, stop
        return
    half = start + rows // 2
    yield from _halved(size, start, half)
    yield from _halved(size, half, stop)


def _decoded_ends(column: pa.DictionaryArray[Any, Any]) -> NDArray[np.int64]:
    """Where each of n rows begins and the last one ends, in bytes, once it is decoded: n + 1.

    A slice of such a column counts its whole dictionary, and a value of it once for many rows.
    """
    values = cast("pa.BinaryArray", column.dictionary)
    lengths = pc.binary_length(values).cast(pa.int64()).take(column.indices)
    return np.concatenate(([0], np.cumsum(np.asarray(lengths.fill_null(0)))))


def read_bytes(column: pa.Array[Any]) -> pa.BinaryArray:
    """A column of strings or binary, plain, large or dictionary-encoded, as binary."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return _narrowed(column)
    return cast("pa.BinaryArray", column.cast(pa.binary()))


def _narrowed(column: pa.Array[Any]) -> pa.BinaryArray:
    """Arrow's own cast looks at how far a slice's offsets are from the start of the column."""
    _, offsets_buffer, data = column.buffers()
    if offsets_buffer is None or not len(column):
        return pa.nulls(len(column), pa.binary())
    offsets = np.frombuffer(
        memoryview(offsets_buffer), np.int64, len(column) + 1, 8 * column.offset
    )
    first, last = int(offsets[0]), int(offsets[-1])
    body = pa.py_buffer(b"") if data is None else data.slice(first, last - first)
    array = binary_array((offsets - first).astype(np.int32), body)
    if not column.null_count:
        return array
    valid = np.packbits(np.asarray(column.is_valid()), bitorder="little").tobytes()
    buffers = [pa.py_buffer(valid), *array.buffers()[1:]]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), len(array), buffers))
