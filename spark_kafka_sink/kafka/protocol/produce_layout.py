"""The layout of Produce requests and responses in each version, which client and broker share.

The readers and writers of plain messages do without `message_format`, which would take longer than
appending a small batch to the log, or than handling its response.

Sources: ``ProduceRequest.json`` and ``ProduceResponse.json``: versions 3 to 13, flexible since 9,
topic ids since 13 (KIP-516).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple
from uuid import UUID

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import message_format
from spark_kafka_sink.kafka.protocol.versions import PRODUCE_WITH_TOPIC_IDS

LOG_START_VERSION = 5
"""First version whose responses have the log start offset."""
_RECORD_ERRORS_VERSION = 8
"""First version whose responses have the errors of records."""
FLEXIBLE_VERSION = 9
"""First version with compact lengths and tagged fields."""
NO_TIME = -1
NO_ID = UUID(int=0)
NO_TAGS = b"\x00"
INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_TOPIC_ID = struct.Struct(">16s")


class WireReaders(NamedTuple):
    """Readers of lengths and topics, and the bytes of empty tags, in one version."""

    length: message_format.Reader
    topic: message_format.Reader
    tags: bytes


@cache
def wire_readers(version: int) -> WireReaders:
    """Return the readers of lengths and topics."""
    flexible = version >= FLEXIBLE_VERSION
    length_of = message_format.compact_length if flexible else message_format.string_length
    name = message_format.sized_reader(length_of, text=True, nullable=False)
    return WireReaders(
        length=message_format.compact_length if flexible else message_format.long_length,
        topic=_topic_id if version >= PRODUCE_WITH_TOPIC_IDS else name,
        tags=NO_TAGS if flexible else b"",
    )


def _topic_id(frame: memoryview, position: int) -> tuple[UUID, int]:
    return UUID(bytes=_TOPIC_ID.unpack_from(frame, position)[0]), position + _TOPIC_ID.size


class ResponseLayout(NamedTuple):
    """The layout of a plain response in one version, with only offsets and error codes."""

    partition: struct.Struct
    """The index, error code, base offset and append time, and the bytes after the log start offset,
    which equal `plain_tail`.
    """
    plain_tail: bytes


@cache
def response_layout(version: int) -> ResponseLayout:
    """Return the layout of plain responses."""
    if version >= FLEXIBLE_VERSION:
        plain_tail = b"\x01\0\0"  # no record errors, no message, empty tags
    else:
        plain_tail = b"" if version < _RECORD_ERRORS_VERSION else b"\0\0\0\0\xff\xff"
    start = "" if version < LOG_START_VERSION else "8x"
    return ResponseLayout(struct.Struct(f">ihqq{start}{len(plain_tail)}s"), plain_tail)


def encode_topic(version: int, name: str | None, topic_id: UUID | None) -> bytes:
    """Encode the field that identifies a topic."""
    if version < PRODUCE_WITH_TOPIC_IDS:
        return encode_string(name, flexible=version >= FLEXIBLE_VERSION)
    if topic_id is None:
        raise ProtocolError(f"Produce {version} requires the topic id", topic=name)
    return topic_id.bytes


def encode_string(text: str | None, *, flexible: bool) -> bytes:
    """Encode a nullable text."""
    raw = b"" if text is None else text.encode()
    length = -1 if text is None else len(raw)
    return (message_format.write_uvarint(length + 1) if flexible else _INT16.pack(length)) + raw


def encode_length(count: int, *, flexible: bool) -> bytes:
    """Encode the length of a list, or of records."""
    return message_format.write_uvarint(count + 1) if flexible else INT32.pack(count)
