"""Convert Spark's Arrow batches to the producer's rows: cast and check each column.

`chunk_ranges` divides large Arrow batches. `read_rows` converts one chunk: header keys, topics and
timestamps are checked for whole columns at once, and errors are collected per row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.masking import MAX_VALUE_CHARS
from spark_kafka_sink.common.text import TOPIC_NAMES, is_topic_name
from spark_kafka_sink.common.time_zones import ZONE_SETTING, system_zone, utc_offsets
from spark_kafka_sink.kafka.records.columns import Columns, read_bytes
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from spark_kafka_sink.producer.rows import Rows, row_name
from spark_kafka_sink.spark.rows.chunk_ranges import chunk_ranges
from spark_kafka_sink.spark.rows.row_checks import RowChecks
from spark_kafka_sink.spark.runtime.internals import local_property

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.spark.rows.serialization import Serialized
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles


_NO_INDEX = -1
"""The index of a topic that is null or removed."""


def read_headers(column: pa.ListArray[Any], checks: RowChecks) -> pa.ListArray[Any] | None:
    """Return the headers of n rows as `HEADER_LISTS`, or None if no row has headers.

    A key that is null or not UTF-8 is an error of its row. It is replaced by a valid key, because
    the row may be written as a dead letter.
    """
    if column.null_count == len(column):
        return None
    entries = column.flatten()
    keys = read_bytes(pc.struct_field(entries, 0))
    if keys.null_count:
        checks.reject(
            _rows_with(column, keys.is_null()),
            RowError.NULL_HEADER_KEY,
            "a header without a key in",
            "Every entry of `headers` needs a key; drop entries whose key is null.",
        )
        keys = cast("pa.BinaryArray", keys.fill_null(b""))
    text = _as_text(keys)
    if text is None:
        text, wrong = _replace_invalid_utf8(keys)
        checks.reject(
            _rows_with(column, wrong),
            RowError.INVALID_HEADER_KEY,
            "a header key that is not UTF-8 in",
            "Header keys are text; put other bytes into the header's value.",
        )
    values = read_bytes(pc.struct_field(entries, 1))
    return _as_lists(column, pa.StructArray.from_arrays([text, values], names=["key", "value"]))


def _rows_with(column: pa.ListArray[Any], entries: pa.Array[Any]) -> Any:
    """Return the rows of these entries, in order and without duplicates."""
    return np.unique(np.asarray(pc.list_parent_indices(column).filter(entries)).astype(np.intp))


def _as_text(keys: pa.BinaryArray) -> pa.BinaryArray | None:
    """Return the keys, or None if not all of them are UTF-8. Arrow's cast to string checks this."""
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    return keys


def _replace_invalid_utf8(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.Array[Any]]:
    """Replace invalid UTF-8 with U+FFFD, as Java's decoder does.

    Return the keys, and which of them changed.
    """
    encoded = keys.dictionary_encode()
    raw = cast("list[bytes]", encoded.dictionary.to_pylist())
    good = [name.decode(errors="replace").encode() for name in raw]
    wrong = pa.array(
        [raw_name != other for raw_name, other in zip(raw, good, strict=True)], pa.bool_()
    )
    repaired = pa.array(good, pa.binary()).take(encoded.indices)
    return repaired, wrong.take(encoded.indices)


def _as_lists(column: pa.ListArray[Any], entries: pa.StructArray) -> pa.ListArray[Any]:
    """Return lists of these entries, with the list lengths of `column`; null lists stay null."""
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, mask=mask)


def read_timestamps(
    column: pa.Array[Any], checks: RowChecks, now_ms: int, zone: str | None
) -> NDArray[np.int64]:
    """Return n timestamps in ms since 1970, shape (n,); a null timestamp becomes `now_ms`.

    A timestamp before 1970 is an error of its row, as in Java's producer (``ProducerRecord``): in
    Kafka -1 means no timestamp. It is replaced by `now_ms`, because the row may be written as a
    dead letter.

    Args:
        column: TIMESTAMP, or TIMESTAMP_NTZ, which has no time zone in Arrow.
        checks: collects the errors.
        now_ms: the time of writing.
        zone: the time zone for TIMESTAMP_NTZ; None for this machine's time zone.
    """
    whole: Any = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    micros = np.asarray(whole.fill_null(0))
    if column.type.tz is None:
        micros = micros - utc_offsets(micros, zone or system_zone(), is_local=True) * 1_000_000
    millis: NDArray[np.int64] = np.floor_divide(micros, 1000)
    if column.null_count:
        millis[np.asarray(column.is_null())] = now_ms
    early = np.flatnonzero(millis < 0)
    if len(early):
        checks.reject(
            early,
            RowError.NEGATIVE_TIMESTAMP,
            f"a timestamp before 1970 ({int(millis[early[0]])} ms) in",
            "Kafka has no such timestamps; use null for the time of writing.",
        )
        millis[early] = now_ms
    return millis


def read_topics(
    column: pa.Array[Any], checks: RowChecks
) -> tuple[tuple[str, ...], NDArray[np.int32] | None]:
    """Return the topics of n rows, and the index of each row's topic.

    The index is None if there is at most one topic.
    """
    encoded = read_bytes(column).dictionary_encode()
    numbers = np.asarray(encoded.indices.fill_null(_NO_INDEX)).astype(np.int32, copy=False)
    checks.reject(
        np.flatnonzero(numbers == _NO_INDEX),
        RowError.NULL_TOPIC,
        "null topic present in the data, first in",
        "Filter such rows out, or set the option topic, which replaces the column `topic`.",
    )
    raw = cast("list[bytes]", encoded.dictionary.to_pylist())
    names = [_topic_name(raw_name) for raw_name in raw]
    wrong = [index for index, name in enumerate(names) if name is None]
    if wrong:
        value = raw[wrong[0]].decode(errors="backslashreplace")[:MAX_VALUE_CHARS]
        checks.reject(
            np.flatnonzero(np.isin(numbers, wrong)),
            RowError.INVALID_TOPIC,
            f"the column `topic` contains {value!r}, which is not a valid topic name, first in",
            TOPIC_NAMES,
        )
        numbers = _renumber_without(wrong, len(names))[numbers]
    topics = tuple(name for name in names if name is not None)
    return topics, None if len(topics) <= 1 else np.maximum(numbers, 0)


def _topic_name(raw: bytes) -> str | None:
    """Return the topic name, or None if it is not valid."""
    name = raw.decode(errors="replace")
    return name if is_topic_name(name) else None


def _renumber_without(wrong: list[int], count: int) -> NDArray[np.int32]:
    """Return the new index for each of `count` indices after the wrong indices are removed.

    The last entry is for rows without an index.
    """
    kept = np.ones(count + 1, np.bool_)
    kept[[*wrong, count]] = False
    return np.where(kept, np.cumsum(kept) - 1, _NO_INDEX).astype(np.int32)


@dataclass(frozen=True, slots=True)
class FirstRow:
    """The first row of a batch."""

    row: int = 0
    """Its number within the task, counted from 0."""
    spark_partition: int | None = None
    """Its partition."""


FIRST = FirstRow()
"""Used for a batch that is read outside a task."""


def read_chunks(
    batch: pa.RecordBatch, roles: ColumnRoles, clock: Clock, first: FirstRow = FIRST
) -> Iterator[Rows]:
    """Yield one Arrow batch as rows of the producer, in chunks of at most 4 MiB.

    Raises:
        ColumnError: see `read_rows`.
    """
    for start, stop in chunk_ranges(batch, roles.used):
        number = replace(first, row=first.row + start)
        yield read_rows(batch.slice(start, stop - start), roles, clock, number)


def read_rows(
    batch: pa.RecordBatch, roles: ColumnRoles, clock: Clock, first: FirstRow = FIRST
) -> Rows:
    """Return a chunk of n rows for the producer; in errors, row numbers start at `first`.

    Raises:
        ColumnError: a topic is null or invalid, a header key is null or not UTF-8, a timestamp is
            before 1970, or a field cannot be serialized, unless `roles.is_tolerant` is set; the
            message contains the row.
    """

    def name(row: int) -> str:
        key = _read_key(batch.slice(row, 1), roles)  # as bytes, which need not be UTF-8
        shown_key = None if key is None else key[0].as_py()
        return row_name(first.row + row, first.spark_partition, shown_key)

    checks = RowChecks(batch.num_rows, roles.is_tolerant, name)
    topics, topic_indexes = _topics_of(batch, roles, checks)
    entries = _column_at(batch, roles.headers)
    lists = None if entries is None else read_headers(entries, checks)
    data = _serialize_parts(batch, roles, checks, clock)
    headers = None if lists is None else encode_headers(lists)
    if data is not None and data.headers:
        headers, lists = data.add_headers(lists, keep=roles.is_tolerant)
    return Rows(
        columns=Columns(
            value=read_bytes(batch.column(cast("int", roles.value)))
            if data is None or data.value is None
            else data.value,
            key=_read_key(batch, roles) if data is None or data.key is None else data.key,
            headers=headers,
            timestamps=_timestamps_of(batch, roles, checks, clock),
        ),
        topics=topics,
        topic_indexes=topic_indexes,
        partition=_column_at(batch, roles.partition),
        first_row=first.row,
        spark_partition=first.spark_partition,
        errors=checks.errors,
        header_lists=lists if roles.is_tolerant else None,
        topic_names=_topic_names(batch, roles, checks),
        problems=None if data is None else data.problems,
        serialize_s=0.0 if data is None else data.seconds,
    )


def _serialize_parts(
    batch: pa.RecordBatch, roles: ColumnRoles, checks: RowChecks, clock: Clock
) -> Serialized | None:
    """Return the serialized keys and values, or None if neither is serialized."""
    if roles.key_spec is None and roles.value_spec is None:
        return None
    from spark_kafka_sink.spark.rows.serialization import serialize  # only for formats

    zone = _session_zone(batch.schema) or system_zone()
    return serialize(batch, roles, checks, zone=zone, clock=clock)


def _topics_of(
    batch: pa.RecordBatch, roles: ColumnRoles, checks: RowChecks
) -> tuple[tuple[str, ...], NDArray[np.int32] | None]:
    if roles.topic is None:
        return (roles.fixed_topic or "",), None
    return read_topics(batch.column(roles.topic), checks)


def _topic_names(
    batch: pa.RecordBatch, roles: ColumnRoles, checks: RowChecks
) -> pa.BinaryArray | None:
    """Return the topic column if some rows have errors and might become dead letters."""
    if roles.topic is None or checks.errors is None:
        return None
    return read_bytes(batch.column(roles.topic))


def _column_at(batch: pa.RecordBatch, index: int | None) -> Any:
    """Return a column, or None if it is missing."""
    return None if index is None else batch.column(index)


def _read_key(batch: pa.RecordBatch, roles: ColumnRoles) -> pa.BinaryArray | None:
    """Return the key column, or None if it is missing or contains only nulls."""
    column = _column_at(batch, roles.key)
    return None if column is None or column.null_count == len(column) else read_bytes(column)


def _timestamps_of(
    batch: pa.RecordBatch, roles: ColumnRoles, checks: RowChecks, clock: Clock
) -> NDArray[np.int64] | None:
    if roles.timestamp is None:
        return None
    column = batch.column(roles.timestamp)
    zone = _session_zone(batch.schema) if column.type.tz is None else None
    return read_timestamps(column, checks, clock.wall_ms(), zone)


def _session_zone(schema: pa.Schema) -> str | None:
    """Return the session's time zone, from its settings or from the type of a column."""
    return local_property(ZONE_SETTING) or next(_zones_of(schema), None)


def _zones_of(type_: Any) -> Iterator[str]:
    """Yield the time zones of timestamps at any depth of a schema or type."""
    if isinstance(type_, pa.TimestampType) and type_.tz is not None:
        yield type_.tz
    fields = type_ if isinstance(type_, pa.Schema) else map(type_.field, range(type_.num_fields))
    for field in fields:
        yield from _zones_of(field.type)
