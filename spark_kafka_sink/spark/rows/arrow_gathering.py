"""Concatenate small Arrow batches, so that the fixed costs of a chunk are shared by more rows."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_kafka_sink.producer.rows import MAX_CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_GATHERED_BYTES = MAX_CHUNK_BYTES
"""Maximum total size of the Arrow batches that are concatenated, in bytes."""
_SLOW_AFTER_S = 0.05
"""Seconds after which an Arrow batch counts as slow. After a slow batch, rows are passed on
immediately.
"""


def gather_batches(
    batches: Iterable[pa.RecordBatch],
    min_rows: Callable[[], int],
    clock: Callable[[], float] = monotonic,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batches; batches with fewer than `min_rows` rows are concatenated.

    After a batch that Spark took long to deliver, rows do not wait for the next batch. `clock`
    returns seconds.
    """
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    requested_at = clock()
    for batch in batches:
        is_slow = clock() - requested_at > _SLOW_AFTER_S
        batch_bytes = batch.nbytes
        if gathered and size + batch_bytes > MAX_GATHERED_BYTES:
            yield _concatenate_batches(gathered)
            gathered, rows, size = [], 0, 0
        gathered.append(batch)
        rows, size = rows + batch.num_rows, size + batch_bytes
        # The next batch may be just as large or slow.
        if is_slow or rows >= min_rows() or size + batch_bytes > MAX_GATHERED_BYTES:
            yield _concatenate_batches(gathered)
            gathered, rows, size = [], 0, 0
        requested_at = clock()
    if gathered:
        yield _concatenate_batches(gathered)


def _concatenate_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    # Concatenating empty batches returns no batch.
    return next(iter(pa.Table.from_batches(batches).combine_chunks().to_batches()), batches[0])
