"""Records back out of a batch, one Python object each: for splits, brokers and tests.

Nothing on the way out to a broker comes through here. Every length is checked against the bytes
that are left. Source: Kafka's ``DefaultRecord.readFrom``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.records.compression import decompress
from spark_kafka_sink.records.record_batch import HEADER_SIZE, BatchHeader, as_int64

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DECOMPRESSED = 256 << 20
"""Bytes: no batch may unfold into more."""

_MAX_VARINT_SIZE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a batch; `timestamp` in milliseconds, header keys as text."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Cursor:
    """A position in a records section."""

    __slots__ = ("data", "position")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = 0

    def varint(self) -> int:
        shift = value = 0
        for _ in range(_MAX_VARINT_SIZE):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise ProtocolError("a varint in a record runs over ten bytes")

    def take(self, size: int) -> memoryview:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise ProtocolError(f"a record field of {size} bytes, {self.left} left in the batch")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def nullable(self) -> bytes | None:
        size = self.varint()
        return None if size == -1 else bytes(self.take(size))

    @property
    def left(self) -> int:
        return len(self.data) - self.position


def records_section(batch: bytes | memoryview, header: BatchHeader) -> memoryview:
    """The uncompressed records of the batch that starts at byte 0."""
    section = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec is Codec.NONE:
        return section
    return memoryview(decompress(header.codec, section, MAX_DECOMPRESSED))


def read_records(batch: bytes | memoryview) -> Iterator[Record]:
    """All records of one batch; raises ProtocolError for anything that is not a batch."""
    header = BatchHeader.parse(batch)
    cursor = _Cursor(records_section(batch, header))
    for _ in range(header.record_count):
        yield _read_record(cursor, header)
    if cursor.left:
        raise ProtocolError(f"{cursor.left} bytes after the last record of a batch")


def _read_record(cursor: _Cursor, header: BatchHeader) -> Record:
    body = _Cursor(cursor.take(cursor.varint()))
    body.take(1)
    timestamp = as_int64(header.base_timestamp + body.varint())
    offset = header.base_offset + body.varint()
    key, value = body.nullable(), body.nullable()
    headers = tuple(_read_header(body) for _ in range(_header_count(body)))
    if body.left:
        raise ProtocolError(f"{body.left} bytes after the last field of a record")
    stamp = header.max_timestamp if header.is_log_append_time else timestamp
    return Record(offset=offset, timestamp=stamp, key=key, value=value, headers=headers)


def _header_count(body: _Cursor) -> int:
    count = body.varint()
    if not 0 <= count <= body.left:
        raise ProtocolError(f"{count} headers in {body.left} bytes")
    return count


def _read_header(body: _Cursor) -> tuple[str, bytes | None]:
    key = body.nullable()
    if key is None:
        raise ProtocolError("a record header without a key")
    try:
        return key.decode(), body.nullable()
    except UnicodeDecodeError as error:
        raise ProtocolError("a record header key that is not UTF-8") from error
