"""Decode batches: record boundaries, columns and single records.

- `_record_positions` finds the start of each record. Each record starts with its size, so it can be
  located only after the previous record. If sizes repeat, many records are found at once by their
  stride; otherwise a loop reads only the sizes.
- `read_fields` and `decode_rows` read the fields of all records of a batch as columns, without
  Python code per field.
- `decode_batch` yields each record as a Python object, for splits, brokers and tests. The write
  path does not use it.

Every length is checked against the remaining bytes.

Source: Kafka's ``DefaultRecord.readFrom``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.columns import Columns, binary_array
from spark_kafka_sink.kafka.records.compression import decompress
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader, as_int64
from spark_kafka_sink.kafka.records.varint import INT_BYTES, LONG_BYTES, read_varint, read_varints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.records.varint import Bytes, Numbers


_MIN_RECORD_BYTES = 7
"""Size of an empty record in bytes."""

_STEP = 1024
"""Maximum number of records located at once."""

_MIN_RUN = 16
"""Minimum number of records of equal size for which a stride is faster than the loop."""
_MAX_SINGLE = 16
"""Maximum number of records or rows for which plain Python is faster than columns."""
_PADDING = bytes(2 * LONG_BYTES)
"""Padding after the data, so that a truncated varint at its end can be read and rejected."""
_MAX_DECOMPRESSED = 256 << 20
"""Maximum number of bytes to which a batch from another writer can decompress."""


def _record_positions(data: bytes, end: int, count: int) -> Numbers:
    """Return the start of each of `count` records; `data` is padded after `end`.

    Raises:
        ProtocolError: `data` does not contain exactly `count` records.
    """
    buffer = np.frombuffer(data, np.uint8)
    positions: list[Numbers] = []
    position, missing = 0, count
    while missing:
        step = min(missing, _STEP)
        run, position = _locate_strided(data, buffer[:end], position, step)
        positions.append(run)
        if len(run) < min(step, _MIN_RUN):
            located, position = _locate_one_by_one(data, position, end, step - len(run))
            positions.append(located)
            missing -= len(located)
        missing -= len(run)
    if position != end:
        raise ProtocolError(f"{end - position} unexpected bytes after the last record of a batch")
    return np.concatenate(positions)


def _locate_strided(data: bytes, buffer: Bytes, position: int, count: int) -> tuple[Numbers, int]:
    """Return the positions of records that have the first record's size, and of the next record."""
    end = len(buffer)
    size, body = read_varint(data, position)
    step = body - position + size
    stop = min(count, (end - position) // max(size, 1))
    if size < _MIN_RECORD_BYTES - 1 or body + size > end:
        raise ProtocolError(f"invalid record size: {size} bytes")
    alike = np.ones(stop, np.bool_)
    for index in range(position, body):
        column = buffer[index : index + stop * step : step]
        alike[: len(column)] &= column == data[index]
        alike[len(column) :] = False
    length = stop if alike.all() else int(alike.argmin())
    length = min(length, (end - position) // step)
    return position + step * np.arange(length), position + step * length


def _locate_one_by_one(data: bytes, position: int, end: int, count: int) -> tuple[Numbers, int]:
    """Return the positions of records of any size, and the position of the next record.

    `_RecordReader.enter` checks the sizes.
    """
    positions = array("q")
    note = positions.append
    try:
        for _ in range(count):
            note(position)
            size = data[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            elif (second := data[position + 1]) < 0x80:
                position += 2 + (size >> 1 & 0x3F | second << 6)
            else:
                size, position = read_varint(data, position)
                position += max(size, 0)
    except IndexError:
        position = end + 1
    if position > end:
        raise ProtocolError("the batch contains fewer records than its header declares")
    return np.frombuffer(positions, np.int64), position


class RecordFields(NamedTuple):
    """Fields of one record. If the size of a key is negative, the key is null."""

    time_delta: int
    offset_delta: int
    key_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldColumns:
    """Fields of all records. If the size of a key is negative, the key is null."""

    time_deltas: Numbers
    offset_deltas: Numbers
    key_sizes: Numbers


def read_fields(section: memoryview | bytes, count: int) -> FieldColumns:
    """Read an uncompressed records section, which must contain exactly `count` records.

    Raises:
        ProtocolError: the section is invalid, or contains a different number of records.
    """
    if count > _MAX_SINGLE:
        return read_columns(section, count)
    numbers = np.array(read_few(section, count), np.int64).reshape(count, len(RecordFields._fields))
    return FieldColumns(
        time_deltas=numbers[:, 0], offset_deltas=numbers[:, 1], key_sizes=numbers[:, 2]
    )


def read_columns(section: memoryview | bytes, count: int) -> FieldColumns:
    """Read many records as columns; see `read_fields`."""
    end = len(section)
    _check_room(count, end)
    data = b"".join((section, _PADDING))
    reader = _RecordReader(data)
    reader.enter(_record_positions(data, end, count), end)
    reader.at = reader.at + 1
    time_deltas = reader.number(LONG_BYTES)
    offset_deltas = reader.number()
    key_sizes = reader.number()
    reader.skip(np.maximum(key_sizes, 0))
    reader.skip(np.maximum(reader.number(), 0))
    reader.skip_headers(reader.number())
    reader.leave()
    return FieldColumns(time_deltas=time_deltas, offset_deltas=offset_deltas, key_sizes=key_sizes)


def read_few(section: memoryview | bytes, count: int) -> list[RecordFields]:
    """Read a few records one by one, which is faster than columns; see `read_fields`."""
    end = len(section)
    _check_room(count, end)
    records, position = [], 0
    for _ in range(count):
        size, start = read_varint(section, position)
        position = start + size
        if size < _MIN_RECORD_BYTES - 1 or position > end:
            raise ProtocolError(f"invalid record size: {size} bytes")
        records.append(_read_one(section, start, position))
    if position != end:
        raise ProtocolError(f"{end - position} unexpected bytes after the last record of a batch")
    return records


def _check_room(count: int, size: int) -> None:
    if count * _MIN_RECORD_BYTES > size:
        raise ProtocolError(f"{count} records do not fit into {size} bytes")


def _read_one(data: memoryview | bytes, start: int, end: int) -> RecordFields:
    time_delta, at = read_varint(data, start + 1, LONG_BYTES)
    offset_delta, at = read_varint(data, at)
    key_size, at = read_varint(data, at)
    size, at = read_varint(data, at + max(key_size, 0))
    headers, at = read_varint(data, at + max(size, 0))
    if headers < 0 or _skip_headers(data, at, headers) != end:
        raise ProtocolError("the fields of a record do not match its size")
    return RecordFields(time_delta, offset_delta, key_size)


def decode_rows(section: memoryview | bytes, header: BatchHeader) -> tuple[Columns, Numbers]:
    """Read a batch's uncompressed records section, which is smaller than 2 GiB, as rows.

    Returns:
        The n rows, and the size of each record in bytes, shape (n,).

    Raises:
        ProtocolError: the section is invalid, or contains a different number of records.
    """
    end = len(section)
    data = b"".join((section, _PADDING))
    reader = _RecordReader(data)
    starts = _record_positions(data, end, header.record_count)
    reader.enter(starts, end)
    reader.at = reader.at + 1
    timestamps = header.base_timestamp + reader.number(LONG_BYTES)
    reader.number()
    key, value = reader.nullable(), reader.nullable()
    headers = reader.entries(reader.at, reader.ends)
    rows = Columns(value=value, key=key, headers=headers, timestamps=timestamps)
    return rows, reader.ends - starts


class _RecordReader:
    """A position in each record. All positions advance together. `data` ends with padding."""

    __slots__ = ("at", "buffer", "data", "ends")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.buffer = np.frombuffer(data, np.uint8)
        self.at: Numbers = np.empty(0, np.int64)
        self.ends: Numbers = self.at

    def enter(self, positions: Numbers, end: int) -> None:
        """Start with records at these positions. Each record ends where the next record starts."""
        self.at = positions
        self.ends = np.append(positions[1:], end)
        sizes = self.number()
        if ((sizes < 0) | (self.at + sizes != self.ends)).any():
            raise ProtocolError("invalid record size")

    def number(self, longest: int = INT_BYTES) -> Numbers:
        """Return the zig-zag varint of 32 or 64 bits at each position, decoded as in Java."""
        values, self.at = read_varints(self.buffer, self.at, longest)
        return values

    def skip(self, sizes: Numbers) -> None:
        """Advance by `sizes` bytes in each record."""
        self.at = self.at + sizes
        if (self.at > self.ends).any():
            raise ProtocolError("a record field extends past the end of its record")

    def nullable(self) -> pa.BinaryArray:
        """Return the key or value at each position."""
        sizes = self.number()
        start = self.at
        self.skip(np.maximum(sizes, 0))
        return self.entries(start, self.at, sizes < 0)

    def entries(
        self, starts: Numbers, ends: Numbers, null: NDArray[np.bool_] | None = None
    ) -> pa.BinaryArray:
        """Return the bytes of each record from `starts` to `ends`, or null where masked."""
        # Every other entry belongs to a record. The entries in between are skipped.
        edges = np.stack((starts, ends), axis=1).astype(np.int32).reshape(-1)
        every_other = pa.array(2 * np.arange(len(starts)), pa.int64(), mask=null)
        return binary_array(edges, pa.py_buffer(self.data)).take(every_other)

    def skip_headers(self, counts: Numbers) -> None:
        """Advance past `counts` headers in each record."""
        if (counts < 0).any():
            raise ProtocolError("invalid record: negative header count")
        rows = np.flatnonzero(counts)
        while rows.size > _MAX_SINGLE:
            self.at[rows] = _skip_header_columns(self.buffer, self.at[rows], self.ends[rows])
            counts[rows] -= 1
            rows = rows[counts[rows] > 0]
        for row in rows:
            self.at[row] = _skip_headers(self.data, int(self.at[row]), int(counts[row]))

    def leave(self) -> None:
        """Raise an error unless every record was read completely."""
        if (self.at != self.ends).any():
            raise ProtocolError("the fields of a record do not match its size")


def _skip_header_columns(buffer: Bytes, positions: Numbers, ends: Numbers) -> Numbers:
    sizes, positions = read_varints(buffer, positions, INT_BYTES)
    positions = positions + sizes
    if ((sizes < 0) | (positions > ends)).any():
        raise ProtocolError("invalid record header key")
    sizes, positions = read_varints(buffer, positions, INT_BYTES)
    positions = positions + np.maximum(sizes, 0)
    if (positions > ends).any():
        raise ProtocolError("a record header extends past the end of its record")
    return positions


def _skip_headers(data: memoryview | bytes, position: int, count: int) -> int:
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise ProtocolError("a record header has no key")
        size, position = read_varint(data, position + size)
        position += max(size, 0)
    return position


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a batch. Header keys are text; `surrogateescape` preserves invalid UTF-8."""

    offset: int
    timestamp: int
    """In milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records_section(
    batch: bytes | memoryview, header: BatchHeader, max_bytes: int | None = None
) -> memoryview:
    """Return the uncompressed records, at most `max_bytes`, of the batch that starts at byte 0."""
    section = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec is Codec.NONE:
        return section
    return memoryview(decompress(header.codec, section, max_bytes or _MAX_DECOMPRESSED))


def decode_batch(batch: bytes | memoryview, max_bytes: int | None = None) -> Iterator[Record]:
    """Yield all records of one batch, which has at most `max_bytes` of uncompressed records.

    Raises:
        ProtocolError: the batch is invalid, or too large.
    """
    header = BatchHeader.parse(batch)
    section = records_section(batch, header, max_bytes)
    at = 0
    for _ in range(header.record_count):
        size, at = read_varint(section, at)
        yield _read_record(_checked_slice(section, at, size), header)
        at += size
    if at != len(section):
        raise ProtocolError(
            f"{len(section) - at} unexpected bytes after the last record of a batch"
        )


def _read_record(body: memoryview, header: BatchHeader) -> Record:
    time_delta, at = read_varint(body, 1, LONG_BYTES)
    offset_delta, at = read_varint(body, at)
    key, at = _read_nullable(body, at)
    value, at = _read_nullable(body, at)
    count, at = read_varint(body, at)
    if not 0 <= count <= len(body) - at:
        raise ProtocolError(f"invalid header count: {count}, {len(body) - at} bytes left")
    headers = []
    for _ in range(count):
        header_key, at = _read_header_key(body, at)
        header_value, at = _read_nullable(body, at)
        headers.append((header_key, header_value))
    if at != len(body):
        raise ProtocolError(f"{len(body) - at} unexpected bytes after the last field of a record")
    timestamp = as_int64(header.base_timestamp + time_delta)
    return Record(
        offset=header.base_offset + offset_delta,
        timestamp=header.max_timestamp if header.is_log_append_time else timestamp,
        key=key,
        value=value,
        headers=tuple(headers),
    )


def _read_header_key(body: memoryview, position: int) -> tuple[str, int]:
    key, position = _read_nullable(body, position)
    if key is None:
        raise ProtocolError("a record header has no key")
    return key.decode(errors="surrogateescape"), position


def _read_nullable(body: memoryview, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(body, position)
    return (
        (None, position)
        if size == -1
        else (bytes(_checked_slice(body, position, size)), position + size)
    )


def _checked_slice(data: memoryview, position: int, size: int) -> memoryview:
    if size < 0 or position + size > len(data):
        raise ProtocolError(f"invalid record field size: {size}, {len(data) - position} bytes left")
    return data[position : position + size]
