"""From Spark's Arrow batches to the producer's rows: casts and checks, no Python per row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from spark_kafka_sink.producer.rows import Rows, row_name
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_headers
from spark_kafka_sink.spark.bytes_column import LARGEST_SLICE, read_bytes, slices
from spark_kafka_sink.spark.header_column import read_headers
from spark_kafka_sink.spark.row_checks import RowChecks
from spark_kafka_sink.spark.session_conf import setting
from spark_kafka_sink.spark.timestamp_column import ZONE_SETTING, read_timestamps
from spark_kafka_sink.spark.topic_column import read_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.spark.contract import Contract


@dataclass(frozen=True, slots=True)
class RowNumber:
    """The first row of a batch: its number in the task, from 0, and the Spark partition."""

    row: int = 0
    spark_partition: int | None = None


FIRST = RowNumber()
"""Of a batch that is read outside of a task."""


MOST_GATHERED = LARGEST_SLICE
"""Bytes of Arrow batches that are put together at most."""
SLOW_AFTER = 0.05
"""Seconds after which an Arrow batch is a slow one: no row is held until the next one comes."""


def gather(
    batches: Iterable[pa.RecordBatch],
    wanted: Callable[[], int],
    clock: Callable[[], float] = monotonic,
) -> Iterator[pa.RecordBatch]:
    """The rows of the batches, several together as long as they have fewer than `wanted`.

    Where Spark takes long for a batch, none waits for the one after it. `clock` in seconds.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    asked = clock()
    for batch in batches:
        is_slow = clock() - asked > SLOW_AFTER
        more = batch.nbytes
        if held and size + more > MOST_GATHERED:
            yield _together(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + batch.num_rows, size + more
        # The next one may be as large, or as late.
        if is_slow or rows >= wanted() or size + more > MOST_GATHERED:
            yield _together(held)
            held, rows, size = [], 0, 0
        asked = clock()
    if held:
        yield _together(held)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    together = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return together[0] if together else batches[0]  # no batch comes of empty ones


def read_chunks(
    batch: pa.RecordBatch, contract: Contract, clock: Clock, first: RowNumber = FIRST
) -> Iterator[Rows]:
    """One Arrow batch as the producer takes it: whole, or in slices where it is over 4 MiB.

    Raises:
        ColumnError: see `read_rows`.
    """
    for start, stop in slices(batch, contract.used):
        number = replace(first, row=first.row + start)
        yield read_rows(batch.slice(start, stop - start), contract, clock, number)


def read_rows(
    batch: pa.RecordBatch, contract: Contract, clock: Clock, first: RowNumber = FIRST
) -> Rows:
    """One chunk of n rows as the producer takes them; errors count them from `first` on.

    Raises:
        ColumnError: a topic that is null or none that Kafka allows, a header key that is null or
            not UTF-8, or a timestamp before 1970, unless the contract tolerates them; the message
            names the row.
    """

    def name(row: int) -> str:
        key = None if contract.key is None else batch.column(contract.key)[row].as_py()
        return row_name(first.row + row, first.spark_partition, key)

    checks = RowChecks(batch.num_rows, contract.tolerant, name)
    topics, topic_of = _topics(batch, contract, checks)
    lists = _header_lists(batch, contract, checks)
    return Rows(
        columns=Columns(
            value=read_bytes(batch.column(contract.value)),
            key=_key(batch, contract),
            headers=None if lists is None else encode_headers(lists),
            timestamps=_timestamps(batch, contract, checks, clock),
        ),
        topics=topics,
        topic_of=topic_of,
        partition=_partition(batch, contract),
        first_row=first.row,
        spark_partition=first.spark_partition,
        errors=checks.errors,
        header_lists=lists if contract.tolerant else None,
        topic_names=_topic_names(batch, contract, checks),
    )


def _topics(
    batch: pa.RecordBatch, contract: Contract, checks: RowChecks
) -> tuple[tuple[str, ...], NDArray[np.int32] | None]:
    if contract.topic is None:
        return (contract.fixed_topic or "",), None
    return read_topics(batch.column(contract.topic), checks)


def _topic_names(
    batch: pa.RecordBatch, contract: Contract, checks: RowChecks
) -> pa.BinaryArray | None:
    """What the topic column says, where some rows may become dead letters for it."""
    if contract.topic is None or checks.errors is None:
        return None
    return read_bytes(batch.column(contract.topic))


def _partition(batch: pa.RecordBatch, contract: Contract) -> pa.Int32Array | None:
    if contract.partition is None:
        return None
    return cast("pa.Int32Array", batch.column(contract.partition))


def _key(batch: pa.RecordBatch, contract: Contract) -> pa.BinaryArray | None:
    if contract.key is None:
        return None
    column = batch.column(contract.key)
    return None if column.null_count == len(column) else read_bytes(column)


def _header_lists(
    batch: pa.RecordBatch, contract: Contract, checks: RowChecks
) -> pa.ListArray[Any] | None:
    if contract.headers is None:
        return None
    return read_headers(cast("pa.ListArray[Any]", batch.column(contract.headers)), checks)


def _timestamps(
    batch: pa.RecordBatch, contract: Contract, checks: RowChecks, clock: Clock
) -> NDArray[np.int64] | None:
    if contract.timestamp is None:
        return None
    column = batch.column(contract.timestamp)
    zone = _zone(batch.schema) if column.type.tz is None else None
    return read_timestamps(column, checks, clock.wall_ms(), zone)


def _zone(schema: pa.Schema) -> str | None:
    """The session's time zone: as it was set, or as Spark states it with another column."""
    stated = (each.type.tz for each in schema if pa.types.is_timestamp(each.type))
    return setting(ZONE_SETTING) or next((zone for zone in stated if zone is not None), None)
