"""RecordBatch v2 written one record and one byte at a time, from Kafka's protocol guide.

Slow and plain on purpose, and independent of `spark_kafka_sink.kafka.records`: what is
compared with it must not share its mistakes. Sources: ``DefaultRecord.writeTo``,
``DefaultRecordBatch.writeHeader``, ``Utils.murmur2``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

Header = tuple[bytes, bytes | None]

CASTAGNOLI = 0x82F63B78


@dataclass(frozen=True)
class Message:
    """A record of the user; the timestamp in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int = 0

    def at(self, timestamp: int) -> Message:
        return replace(self, timestamp=timestamp)


@dataclass(frozen=True)
class Producer:
    """The producer fields of a batch header."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


def zigzag_varint(number: int) -> bytes:
    rest = number * 2 if number >= 0 else -number * 2 - 1
    written = b""
    while rest >= 128:
        written += bytes([rest % 128 + 128])
        rest //= 128
    return written + bytes([rest])


def nullable_bytes(content: bytes | None) -> bytes:
    if content is None:
        return zigzag_varint(-1)
    return zigzag_varint(len(content)) + content


def header_section(headers: tuple[Header, ...]) -> bytes:
    written = zigzag_varint(len(headers))
    for key, value in headers:
        written += nullable_bytes(key) + nullable_bytes(value)
    return written


def record(message: Message, offset_delta: int, base_timestamp: int) -> bytes:
    body = b"\x00"
    body += zigzag_varint(message.timestamp - base_timestamp)
    body += zigzag_varint(offset_delta)
    body += nullable_bytes(message.key)
    body += nullable_bytes(message.value)
    body += header_section(message.headers)
    return zigzag_varint(len(body)) + body


def records(messages: list[Message]) -> bytes:
    base = messages[0].timestamp
    return b"".join(record(message, delta, base) for delta, message in enumerate(messages))


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def batch(messages: list[Message], codec: int, section: bytes, producer: Producer) -> bytes:
    """Return a batch around a records section, which is already compressed if a codec is given."""
    stamps = [message.timestamp for message in messages]
    checked = struct.pack(">hi", codec, len(messages) - 1)
    checked += struct.pack(">qq", stamps[0], max(stamps))
    checked += struct.pack(">qhi", producer.producer_id, producer.epoch, producer.sequence)
    checked += struct.pack(">i", len(messages)) + section
    front = struct.pack(">ibI", -1, 2, crc32c(checked))
    return struct.pack(">qi", 0, len(front) + len(checked)) + front + checked


def murmur2(data: bytes) -> int:
    """Compute Java's int arithmetic step by step; return an unsigned 32-bit number."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
        k = k * m & mask
        k ^= k >> 24
        k = k * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if len(rest) == 3:
        h ^= rest[2] << 16
    if len(rest) >= 2:
        h ^= rest[1] << 8
    if rest:
        h = (h ^ rest[0]) * m & mask
    h ^= h >> 13
    h = h * m & mask
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
