"""From Spark's Arrow batches to the producer's rows: casts and checks, no Python per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.base.errors import ColumnError
from spark_kafka_sink.producer.partitioner import Rows
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.base.clock import Clock
    from spark_kafka_sink.spark.contract import Contract

_HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def read_rows(batch: pa.RecordBatch, contract: Contract, clock: Clock) -> Rows:
    """One Arrow batch of n rows as the producer takes it.

    Raises:
        ColumnError: a null topic or a null header key; the message names the row.
    """
    topics, topic_of = _topics(batch, contract)
    return Rows(
        columns=Columns(
            value=_binary(batch.column(contract.value)),
            key=_key(batch, contract),
            headers=_headers(batch, contract),
            timestamps=_timestamps(batch, contract, clock),
        ),
        topics=topics,
        topic_of=topic_of,
        partition=_partition(batch, contract),
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
    batch: pa.RecordBatch, contract: Contract
) -> tuple[tuple[str, ...], NDArray[np.int32] | None]:
    if contract.topic is None:
        return (contract.fixed_topic or "",), None
    column = batch.column(contract.topic)
    if column.null_count:
        row = int(np.asarray(column.is_null()).argmax())
        raise ColumnError(
            f"null topic present in the data, first in row {row} of a batch of {len(column)}",
            hint="use the topic option for setting a default topic, or filter such rows out",
        )
    encoded = column.dictionary_encode()
    topics = tuple(str(name) for name in encoded.dictionary.to_pylist())
    if len(topics) == 1:
        return topics, None
    return topics, cast("NDArray[np.int32]", np.asarray(encoded.indices))


def _headers(batch: pa.RecordBatch, contract: Contract) -> pa.BinaryArray | None:
    if contract.headers is None:
        return None
    column = cast("pa.ListArray[Any]", batch.column(contract.headers))
    if column.null_count == len(column):
        return None
    keys = pc.struct_field(column.flatten(), 0)
    if keys.null_count:
        _refuse_null_header_key(column)
    return encode_headers(cast("pa.ListArray[Any]", column.cast(_HEADERS)))


def _refuse_null_header_key(column: pa.ListArray[Any]) -> None:
    rows = pc.list_parent_indices(column)
    bad = pc.is_null(pc.struct_field(column.flatten(), 0))
    row = rows.filter(bad)[0].as_py()
    raise ColumnError(
        f"a header without a key in row {row} of a batch of {len(column)}",
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
