"""The 61-byte header of a RecordBatch, format v2, and its checksum.

Source: Kafka's ``DefaultRecordBatch``. All numbers are big-endian. The CRC-32C covers everything
from `attributes` to the end, so the broker may stamp base offset and leader epoch afterwards.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import crc32c

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

HEADER_SIZE = 61
MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
LENGTH_OFFSET = 8
LEADER_EPOCH_OFFSET = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
LOG_OVERHEAD = 12
"""Bytes before those that `length` counts: base offset and the length itself."""

_PREFIX = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
_CODEC_MASK = 0x07
_CODECS = tuple(Codec)
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_OFFSET = 23
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """The fields of a batch header; times in milliseconds, `length` in bytes as on the wire."""

    base_offset: int = 0
    length: int = 0
    leader_epoch: int = -1
    magic: int = MAGIC
    crc: int = 0
    attributes: int = 0
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    record_count: int

    @property
    def size(self) -> int:
        """Whole batch in bytes, header included."""
        return self.length + LOG_OVERHEAD

    @property
    def codec(self) -> Codec:
        """Raises ProtocolError for codec numbers that nobody has defined."""
        number = self.attributes & _CODEC_MASK
        if number >= len(_CODECS):
            raise ProtocolError(f"unknown compression codec {number}")
        return _CODECS[number]

    @property
    def is_log_append_time(self) -> bool:
        """The broker's clock stamped the batch, not the producer's."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """The batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The batch holds transaction markers and no user records."""
        return bool(self.attributes & _CONTROL)

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    def pack(self, records: Iterable[Buffer]) -> bytes:
        """The 61 bytes for these (compressed) records, with length and CRC computed."""
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
        crc, size = crc32c.crc32c(checked), HEADER_SIZE
        for part in records:
            crc = crc32c.crc32c(part, crc)
            size += memoryview(part).nbytes
        length = size - LOG_OVERHEAD
        return _PREFIX.pack(self.base_offset, length, self.leader_epoch, MAGIC, crc) + checked

    @classmethod
    def parse(cls, data: bytes | memoryview, offset: int = 0) -> BatchHeader:
        """Read the header at `offset`; raises ProtocolError when 61 bytes are not there."""
        if len(data) - offset < HEADER_SIZE:
            raise ProtocolError(f"a record batch header needs 61 bytes, {len(data) - offset} left")
        base_offset, length, leader_epoch, magic, crc = _PREFIX.unpack_from(data, offset)
        checked = _CHECKED.unpack_from(data, offset + ATTRIBUTES_OFFSET)
        return cls(
            base_offset=base_offset,
            length=length,
            leader_epoch=leader_epoch,
            magic=magic,
            crc=crc,
            attributes=checked[0],
            last_offset_delta=checked[1],
            base_timestamp=checked[2],
            max_timestamp=checked[3],
            producer_id=checked[4],
            producer_epoch=checked[5],
            base_sequence=checked[6],
            record_count=checked[7],
        )


def last_offset_delta(batch: bytes | memoryview) -> int:
    """Number of the last record of the batch at byte 0, from 0; its header must be there."""
    return int(_LAST_OFFSET_DELTA.unpack_from(batch, _LAST_OFFSET_DELTA_OFFSET)[0])


def checksum(batch: bytes | memoryview) -> int:
    """CRC-32C of a whole batch as its header should state it."""
    return crc32c.crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
