"""From Spark's Arrow batches to the producer's rows: casts and checks, no Python per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.base.errors import ColumnError
from spark_kafka_sink.producer.dead_letter import HEADER_LISTS, without_null_keys
from spark_kafka_sink.producer.flaws import Flaw
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.base.clock import Clock
    from spark_kafka_sink.spark.contract import Contract


def read_rows(batch: pa.RecordBatch, contract: Contract, clock: Clock) -> Rows:
    """One Arrow batch of n rows as the producer takes it.

    Raises:
        ColumnError: a null topic or a null header key, unless the contract tolerates them; the
            message names the row.
    """
    flaws = np.zeros(batch.num_rows, np.int8)
    topics, topic_of = _topics(batch, contract, flaws)
    lists = _header_lists(batch, contract, flaws)
    return Rows(
        columns=Columns(
            value=_binary(batch.column(contract.value)),
            key=_key(batch, contract),
            headers=None if lists is None else encode_headers(lists),
            timestamps=_timestamps(batch, contract, clock),
        ),
        topics=topics,
        topic_of=topic_of,
        partition=_partition(batch, contract),
        flaws=flaws if flaws.any() else None,
        header_lists=lists if contract.tolerant else None,
    )


def _binary(column: pa.Array[Any]) -> pa.BinaryArray:
    """Strings and binary share a layout, so this copies nothing but large ones' offsets."""
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return cast("pa.BinaryArray", column.cast(pa.binary()))


def _partition(batch: pa.RecordBatch, contract: Contract) -> pa.Int32Array | None:
    if contract.partition is None:
        return None
    return cast("pa.Int32Array", batch.column(contract.partition))


def _key(batch: pa.RecordBatch, contract: Contract) -> pa.BinaryArray | None:
    if contract.key is None:
        return None
    column = batch.column(contract.key)
    return None if column.null_count == len(column) else _binary(column)


def _topics(
    batch: pa.RecordBatch, contract: Contract, flaws: NDArray[np.int8]
) -> tuple[tuple[str, ...], NDArray[np.int32] | None]:
    """The topics of the batch, and each row's number among them; marks rows without one."""
    if contract.topic is None:
        return (contract.fixed_topic or "",), None
    column = batch.column(contract.topic)
    if column.null_count:
        missing = np.asarray(column.is_null())
        if not contract.tolerant:
            _refuse_null_topic(missing)
        flaws[missing] = Flaw.NULL_TOPIC
    encoded = column.dictionary_encode()
    topics = tuple(str(name) for name in encoded.dictionary.to_pylist())
    if len(topics) <= 1:
        return topics, None
    return topics, np.asarray(encoded.indices.fill_null(0)).astype(np.int32, copy=False)


def _refuse_null_topic(missing: NDArray[np.bool_]) -> None:
    raise ColumnError(
        f"null topic present in the data, first in row {int(missing.argmax())} of a batch of "
        f"{len(missing)}",
        hint="use the topic option for setting a default topic, or filter such rows out",
    )


def _header_lists(
    batch: pa.RecordBatch, contract: Contract, flaws: NDArray[np.int8]
) -> pa.ListArray[Any] | None:
    """The header column with binary keys; marks rows with a null key, which becomes empty."""
    if contract.headers is None:
        return None
    column = cast("pa.ListArray[Any]", batch.column(contract.headers))
    if column.null_count == len(column):
        return None
    lists = cast("pa.ListArray[Any]", column.cast(HEADER_LISTS))
    missing = pc.is_null(pc.struct_field(lists.flatten(), 0))
    if not pc.any(missing).as_py():
        return lists
    rows = np.asarray(pc.list_parent_indices(lists).filter(missing))
    if not contract.tolerant:
        _refuse_null_header_key(int(rows[0]), len(lists))
    flaws[rows] = np.where(flaws[rows] == Flaw.NONE, np.int8(Flaw.NULL_HEADER_KEY), flaws[rows])
    return without_null_keys(lists)


def _refuse_null_header_key(row: int, rows: int) -> None:
    raise ColumnError(
        f"a header without a key in row {row} of a batch of {rows}",
        hint="every entry of `headers` needs a key; drop entries whose key is null",
    )


def _timestamps(
    batch: pa.RecordBatch, contract: Contract, clock: Clock
) -> NDArray[np.int64] | None:
    """Milliseconds since 1970; a null timestamp is the time of writing."""
    if contract.timestamp is None:
        return None
    column = batch.column(contract.timestamp)
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    filled = micros.fill_null(clock.wall_ms() * 1000)
    return cast("NDArray[np.int64]", np.floor_divide(np.asarray(filled), 1000))
