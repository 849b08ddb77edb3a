"""The Produce request, written around batches that are never copied.

Every other message goes through `codec`; this one carries megabytes. Source:
``ProduceRequest.json``: versions 3 to 13, flexible from 9 on, topic ids in 13 (KIP-516).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.primitives import write_uvarint

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from typing_extensions import Buffer

_FLEXIBLE = 9
_TOPIC_IDS = 13
_ACKS_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_NO_TAGS = b"\x00"


class PartitionData(NamedTuple):
    """One batch for one partition: its bytes in `parts`, `size` of them."""

    partition: int
    parts: Sequence[Buffer]
    size: int


class TopicData(NamedTuple):
    """The batches of one topic; `topic_id` is needed from version 13 on."""

    name: str
    topic_id: uuid.UUID | None
    partitions: Sequence[PartitionData]


class ProduceHead(NamedTuple):
    """What a Produce request says before its topics; `acks` as on the wire."""

    version: int
    transactional_id: str | None
    acks: int
    timeout_ms: int


def produce_body(head: ProduceHead, topics: Sequence[TopicData]) -> list[Buffer]:
    """The request's body as buffers: framing in bytes, batches as they were given."""
    flexible = head.version >= _FLEXIBLE
    front = bytearray(_string(head.transactional_id, flexible=flexible))
    front += _ACKS_TIMEOUT.pack(head.acks, head.timeout_ms)
    front += _length(len(topics), flexible=flexible)
    buffers: list[Buffer] = []
    for topic in topics:
        front += _topic_key(topic, head.version)
        front += _length(len(topic.partitions), flexible=flexible)
        for data in topic.partitions:
            front += _INT32.pack(data.partition) + _length(data.size, flexible=flexible)
            buffers += [bytes(front), *data.parts]
            front = bytearray(_NO_TAGS if flexible else b"")
        front += _NO_TAGS if flexible else b""
    front += _NO_TAGS if flexible else b""
    return [*buffers, bytes(front)] if front else buffers


def _topic_key(topic: TopicData, version: int) -> bytes:
    if version >= _TOPIC_IDS:
        if topic.topic_id is None:
            raise ProtocolError(f"Produce {version} needs the id of the topic", topic=topic.name)
        return topic.topic_id.bytes
    return _string(topic.name, flexible=version >= _FLEXIBLE)


def _string(text: str | None, *, flexible: bool) -> bytes:
    raw = None if text is None else text.encode()
    if flexible:
        return write_uvarint(0) if raw is None else write_uvarint(len(raw) + 1) + raw
    return _INT16.pack(-1) if raw is None else _INT16.pack(len(raw)) + raw


def _length(count: int, *, flexible: bool) -> bytes:
    return write_uvarint(count + 1) if flexible else _INT32.pack(count)
