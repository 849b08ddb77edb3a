"""Stream entries and Kafka records, each made from the other.

An entry has the fields ``key``, ``value``, ``timestamp`` (decimal milliseconds) and
``header.<name>``, in this order, headers in theirs. What is null has no field, so a null key or
value differs from an empty one; a header with a null value is an empty field
``null-header.<name>``. A name may be repeated, as Redis keeps repeated fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.records.decoder import Record

KEY = b"key"
VALUE = b"value"
TIMESTAMP = b"timestamp"
HEADER = b"header."
NULL_HEADER = b"null-header."

Fields: TypeAlias = list[bytes]
"""Names and contents in turn, as Redis sends them."""

_HEADERS = pa.struct([("key", pa.binary()), ("value", pa.binary())])


def write_fields(record: Record) -> Fields:
    """The fields of a record's entry."""
    fields: Fields = []
    if record.key is not None:
        fields += (KEY, record.key)
    if record.value is not None:
        fields += (VALUE, record.value)
    fields += (TIMESTAMP, b"%d" % record.timestamp)
    for name, content in record.headers:
        if content is None:
            fields += (NULL_HEADER + name.encode(), b"")
        else:
            fields += (HEADER + name.encode(), content)
    return fields


class _Row(NamedTuple):
    """An entry's content; fields that are not Kafka's are left out."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[bytes, bytes | None]]


def _read_fields(fields: Fields) -> _Row:
    key = value = None
    timestamp = 0
    headers: list[tuple[bytes, bytes | None]] = []
    for name, content in zip(fields[::2], fields[1::2], strict=True):
        if name == KEY:
            key = content
        elif name == VALUE:
            value = content
        elif name == TIMESTAMP:
            timestamp = int(content)
        elif name.startswith(HEADER):
            headers.append((name[len(HEADER) :], content))
        elif name.startswith(NULL_HEADER):
            headers.append((name[len(NULL_HEADER) :], None))
    return _Row(key, value, timestamp, headers)


def read_columns(entries: Sequence[Fields]) -> Columns:
    """The records of n entries, with their timestamps.

    Raises:
        ValueError: a timestamp is no number.
    """
    names = entries[0][::2] if entries else []
    is_plain = TIMESTAMP in names and {KEY, VALUE, TIMESTAMP}.issuperset(names)
    if is_plain and all(fields[::2] == names for fields in entries):
        return _plain_columns(entries, names)
    rows = [_read_fields(fields) for fields in entries]
    headers = [row.headers for row in rows]
    return Columns(
        value=_binary([row.value for row in rows]),
        key=_binary([row.key for row in rows]),
        headers=_encoded(headers) if any(headers) else None,
        timestamps=np.fromiter((row.timestamp for row in rows), np.int64, len(rows)),
    )


def _plain_columns(entries: Sequence[Fields], names: Fields) -> Columns:
    """The same for entries that all have these fields: five times as fast."""

    def column(name: bytes) -> pa.BinaryArray | None:
        if name not in names:
            return None
        at = 2 * names.index(name) + 1
        return _binary([fields[at] for fields in entries])

    value = column(VALUE)
    at = 2 * names.index(TIMESTAMP) + 1
    return Columns(
        value=pa.nulls(len(entries), pa.binary()) if value is None else value,
        key=column(KEY),
        timestamps=np.array([int(fields[at]) for fields in entries], np.int64),
    )


def _binary(values: list[bytes | None]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def _encoded(headers: list[list[tuple[bytes, bytes | None]]]) -> pa.BinaryArray:
    offsets = np.zeros(len(headers) + 1, np.int32)
    np.cumsum([len(row) for row in headers], out=offsets[1:])
    flat = [pair for row in headers for pair in row]
    keys, values = _binary([key for key, _ in flat]), _binary([value for _, value in flat])
    entries: Any = pa.StructArray.from_arrays([keys, values], fields=list(_HEADERS))
    return encode_headers(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries))
