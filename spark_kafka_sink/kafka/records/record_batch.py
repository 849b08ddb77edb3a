"""The 61-byte header of a RecordBatch, format v2, and its checksum.

Source: Kafka's ``DefaultRecordBatch``. All numbers are big-endian. The CRC-32C covers everything
from `attributes` to the end, so the broker can set the base offset and the leader epoch afterwards.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import crc32c

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

MAGIC = 2
MAX_SEQUENCE = 0x7FFFFFFF
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

# Sizes and offsets in bytes.
HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Number of bytes that `length` does not count: the base offset and the length field."""
LENGTH_OFFSET = 8
LEADER_EPOCH_OFFSET = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17
_ATTRIBUTES_OFFSET = 21
_LAST_OFFSET_DELTA_OFFSET = 23

# Bits of the attributes.
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
_CONTROL_FLAG = 0x20
_CODECS = tuple(Codec)

_PREFIX = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
_WHOLE = struct.Struct(">qiibIhiqqqhii")
_LAST_OFFSET_DELTA = struct.Struct(">i")


def as_int64(value: int) -> int:
    """Wrap a sum of two int64 as Java does: base timestamp plus delta can exceed int64."""
    return (value + 2**63) % 2**64 - 2**63


class BatchHeader(NamedTuple):
    """The fields of a batch header, in wire order. `length` is in bytes, times are in milliseconds.

    The class is a tuple for speed, because a header is parsed for every batch that is read.
    """

    base_offset: int = 0
    length: int = 0
    leader_epoch: int = -1
    magic: int = MAGIC
    crc: int = 0
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    record_count: int = 0

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes, including the header."""
        return self.length + LOG_OVERHEAD

    @property
    def codec(self) -> Codec:
        """The codec. Raises ProtocolError if the codec number is undefined."""
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise ProtocolError(f"unknown compression codec {number}")
        return _CODECS[number]

    @property
    def is_log_append_time(self) -> bool:
        """True if the broker, not the producer, set the timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the batch contains transaction markers instead of user records."""
        return bool(self.attributes & _CONTROL_FLAG)

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    def pack(self, records: Iterable[Buffer]) -> bytes:
        """Return the 61-byte header, with length and CRC, for these encoded records."""
        checked = _CHECKED.pack(
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )
        crc = crc32c.crc32c(checked)
        size = HEADER_SIZE
        for part in records:
            crc = crc32c.crc32c(part, crc)
            size += memoryview(part).nbytes
        length = size - LOG_OVERHEAD
        return _PREFIX.pack(self.base_offset, length, self.leader_epoch, MAGIC, crc) + checked

    @classmethod
    def parse(cls, data: bytes | memoryview, offset: int = 0) -> BatchHeader:
        """Return the header at `offset`. Raises ProtocolError if fewer than 61 bytes follow."""
        if len(data) - offset < HEADER_SIZE:
            raise ProtocolError(
                f"a record batch header is 61 bytes, but {len(data) - offset} are left"
            )
        return cls._make(_WHOLE.unpack_from(data, offset))


def next_sequence(base_sequence: int, record_count: int) -> int:
    """Return the sequence number after a batch, which wraps to 0 after 2^31 - 1 as in Kafka."""
    return (base_sequence + record_count) & MAX_SEQUENCE


def last_offset_delta(batch: bytes | memoryview) -> int:
    """Return the last offset delta of the batch at byte 0, which must have a complete header."""
    return int(_LAST_OFFSET_DELTA.unpack_from(batch, _LAST_OFFSET_DELTA_OFFSET)[0])


def is_transactional(batch: bytes | memoryview) -> bool:
    """Return True if the batch at byte 0 is transactional. The header must be complete."""
    return bool(batch[_ATTRIBUTES_OFFSET + 1] & TRANSACTIONAL)


def checksum(batch: bytes | memoryview) -> int:
    """Return the CRC-32C of a whole batch, which its header should contain."""
    return crc32c.crc32c(memoryview(batch)[_ATTRIBUTES_OFFSET:])
