"""Convert Kafka records to Redis Stream entries and back, and offsets to entry ids.

An entry has the fields ``key``, ``value``, ``timestamp`` (decimal milliseconds) and
``header.<name>``, in this order; the order of the headers is preserved. A null key or value has no
field, unlike an empty key or value. A header with a null value is an empty field
``null-header.<name>``. Field names can be repeated, because Redis supports repeated fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_encoder import encode_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.kafka.records.record_decoder import Record


DEFAULT_SEQUENCE_BITS = 10
_MAX_SEQUENCE_BITS = 20
"""Maximum number of sequence bits. The remaining 43 bits of an offset represent times until 2248.
"""
KEY = b"key"
_VALUE = b"value"
_TIMESTAMP = b"timestamp"
_HEADER = b"header."
_NULL_HEADER = b"null-header."
Fields: TypeAlias = list[bytes]
"""Alternating field names and values, as Redis returns them."""
_HEADERS = pa.struct([("key", pa.binary()), ("value", pa.binary())])


def id_parts(text: bytes) -> tuple[int, int]:
    """Return the milliseconds and the sequence of an entry id."""
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)


def last_id_parts(stream_info: Sequence[Any]) -> tuple[int, int]:
    """Return the last id that a stream ever had, from the reply to XINFO STREAM."""
    values = dict(zip(stream_info[::2], stream_info[1::2], strict=True))
    return id_parts(values[b"last-generated-id"])


@dataclass(frozen=True, slots=True)
class EntryIds:
    """The mapping ``offset = (milliseconds << sequence_bits) | sequence`` and its inverse.

    Offsets are assigned first, and the ids are derived from the offsets. After the last sequence of
    a millisecond, the next offset is in the next millisecond, so any record rate is possible.

    Raises:
        ConfigError: `sequence_bits` is not 1 to 20.
    """

    sequence_bits: int = DEFAULT_SEQUENCE_BITS

    def __post_init__(self) -> None:
        if not 1 <= self.sequence_bits <= _MAX_SEQUENCE_BITS:
            raise ConfigError(
                f"sequence_bits is {self.sequence_bits}",
                hint=f"It must be 1 to {_MAX_SEQUENCE_BITS}.",
            )

    def offset(self, milliseconds: int, sequence: int) -> int:
        """Return the offset of an id.

        Raises:
            ValueError: the sequence needs more than `sequence_bits` bits.
        """
        if not 0 <= sequence < 1 << self.sequence_bits:
            raise ValueError(f"sequence {sequence} needs more than {self.sequence_bits} bits")
        return milliseconds << self.sequence_bits | sequence

    def parts(self, offset: int) -> tuple[int, int]:
        """Return the milliseconds and the sequence of an offset."""
        return offset >> self.sequence_bits, offset & (1 << self.sequence_bits) - 1

    def text(self, offset: int) -> bytes:
        """Return the entry id of an offset in Redis's format."""
        return b"%d-%d" % self.parts(offset)

    def read(self, text: bytes) -> int:
        """Return the offset of an entry id that Redis returned.

        Raises:
            ValueError: the sequence needs more than `sequence_bits` bits.
        """
        return self.offset(*id_parts(text))

    def next_offset(self, end: int, now_ms: int) -> int:
        """Return the next base offset: the offset of the current time, or `end` if higher."""
        return max(end, now_ms << self.sequence_bits)


def write_fields(record: Record) -> Fields:
    """Return the fields of a record's entry."""
    fields: Fields = []
    if record.key is not None:
        fields += (KEY, record.key)
    if record.value is not None:
        fields += (_VALUE, record.value)
    fields += (_TIMESTAMP, b"%d" % record.timestamp)
    for name, content in record.headers:
        if content is None:
            fields += (_NULL_HEADER + _raw(name), b"")
        else:
            fields += (_HEADER + _raw(name), content)
    return fields


def _raw(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


class _Row(NamedTuple):
    """The content of an entry. Unknown fields are ignored."""

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
        elif name == _VALUE:
            value = content
        elif name == _TIMESTAMP:
            timestamp = int(content)
        elif name.startswith(_HEADER):
            headers.append((name[len(_HEADER) :], content))
        elif name.startswith(_NULL_HEADER):
            headers.append((name[len(_NULL_HEADER) :], None))
    return _Row(key, value, timestamp, headers)


def read_record_columns(entries: Sequence[Fields]) -> Columns:
    """Return the records of all entries as columns, with their timestamps.

    Raises:
        ValueError: a timestamp is not a number.
    """
    names = entries[0][::2] if entries else []
    is_plain = _TIMESTAMP in names and {KEY, _VALUE, _TIMESTAMP}.issuperset(names)
    if is_plain and all(fields[::2] == names for fields in entries):
        return _plain_columns(entries, names)
    rows = [_read_fields(fields) for fields in entries]
    headers = [row.headers for row in rows]
    return Columns(
        value=_binary_array([row.value for row in rows]),
        key=_binary_array([row.key for row in rows]),
        headers=_encode_header_lists(headers) if any(headers) else None,
        timestamps=np.fromiter((row.timestamp for row in rows), np.int64, len(rows)),
    )


def _plain_columns(entries: Sequence[Fields], names: Fields) -> Columns:
    """Return the columns of entries that all have the same fields, which is five times as fast."""

    def column(name: bytes) -> pa.BinaryArray | None:
        if name not in names:
            return None
        at = 2 * names.index(name) + 1
        return _binary_array([fields[at] for fields in entries])

    value = column(_VALUE)
    at = 2 * names.index(_TIMESTAMP) + 1
    return Columns(
        value=pa.nulls(len(entries), pa.binary()) if value is None else value,
        key=column(KEY),
        timestamps=np.array([int(fields[at]) for fields in entries], np.int64),
    )


def _binary_array(values: list[bytes | None]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def _encode_header_lists(headers: list[list[tuple[bytes, bytes | None]]]) -> pa.BinaryArray:
    offsets = np.zeros(len(headers) + 1, np.int32)
    np.cumsum([len(row) for row in headers], out=offsets[1:])
    flat = [pair for row in headers for pair in row]
    keys = _binary_array([key for key, _ in flat])
    values = _binary_array([value for _, value in flat])
    entries: Any = pa.StructArray.from_arrays([keys, values], fields=list(_HEADERS))
    return encode_headers(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries))
