"""Divide Arrow batches into chunks that are small enough to be encoded at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.producer.rows import MAX_CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

MAX_CHUNK_ROWS = 1 << 17
"""Maximum number of rows in a chunk. It limits memory if rows are very short, because each row
needs a few eight-byte numbers.
"""


def chunk_ranges(batch: pa.RecordBatch, columns: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the start and end row of chunks of at most `MAX_CHUNK_BYTES` and `MAX_CHUNK_ROWS`.

    The size of a chunk is that of these columns. A larger row gets its own chunk.
    """
    encoded = [
        column for column in columns if pa.types.is_dictionary(batch.schema.field(column).type)
    ]
    plain = batch.select([column for column in columns if column not in encoded])
    ends = [_decoded_ends(cast("Any", batch.column(name))) for name in encoded]

    def size(start: int, stop: int) -> int:
        decoded = sum(int(end[stop] - end[start]) for end in ends)
        return plain.slice(start, stop - start).nbytes + decoded

    yield from _halve_range(size, 0, batch.num_rows)


def _halve_range(
    size: Callable[[int, int], int], start: int, stop: int
) -> Iterator[tuple[int, int]]:
    rows = stop - start
    if rows <= 1 or (rows <= MAX_CHUNK_ROWS and size(start, stop) <= MAX_CHUNK_BYTES):
        yield start, stop
        return
    half = start + rows // 2
    yield from _halve_range(size, start, half)
    yield from _halve_range(size, half, stop)


def _decoded_ends(column: pa.DictionaryArray[Any, Any]) -> NDArray[np.int64]:
    """Return n + 1 byte offsets: the start of each of n decoded rows, and the end of the last row.

    The size that Arrow reports for a slice of a dictionary column is not usable: it includes the
    whole dictionary, and counts a value only once even if many rows have it.
    """
    values = cast("pa.BinaryArray", column.dictionary)
    lengths = pc.binary_length(values).cast(pa.int64()).take(column.indices)
    return np.concatenate(([0], np.cumsum(np.asarray(lengths.fill_null(0)))))
