"""Read and write Produce requests without copying records.

- `produce_body` (client side) writes the framing around batches that are never copied. All other
  requests are written by `codec`; this one carries megabytes.
- `plain_produce_request` (broker side) reads a request for one partition without transactional id.
  With small batches, a generic reader would take longer than the append to the log. The result
  equals that of `codec`, which reads every other request, including invalid ones.

Source: ``ProduceRequest.json``: versions 3 to 13, flexible since 9, topic ids since 13 (KIP-516).
"""

from __future__ import annotations

import struct
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.codec import (
    BAD_BYTES,
    Reader,
    compact_length,
    long_length,
    milliseconds,
    shape_of,
    sized_reader,
    string_length,
    uuid,
    write_uvarint,
)
from spark_kafka_sink.protocol.versions import ApiKey, request_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from typing_extensions import Buffer


_FLEXIBLE: Final = 9
_TOPIC_IDS: Final = 13
_TOPIC_ID: Final = struct.Struct(">16s")


class _Layout(NamedTuple):
    """A version's layout of a request without transactional id, for one topic and partition.

    `head`: length of the transactional id, acks, timeout and topic count. `partition`: partition
    count and the index of the first partition. `size` reads the size of the records. `tail`: the
    bytes after the records. `null_id` and `one` are the encodings of a null id and a count of 1.
    """

    head: struct.Struct
    null_id: int
    one: int
    topic: Reader
    partition: struct.Struct
    size: Reader
    tail: bytes


class _Types(NamedTuple):
    """The message classes of a version; `key` is the field that identifies the topic."""

    request: Any
    topic: Any
    partition: Any
    key: str


def plain_produce_request(version: int, frame: memoryview, at: int) -> Any | None:
    """Read the body of a plain request; return None if it is not plain or is invalid."""
    try:
        return _read(version, frame, at)
    except (*BAD_BYTES, ProtocolError):
        return None


def _read(version: int, frame: memoryview, at: int) -> Any | None:
    layout = _layout(version)
    id_length, acks, timeout, topics = layout.head.unpack_from(frame, at)
    if id_length != layout.null_id or topics != layout.one:
        return None
    topic, at = layout.topic(frame, at + layout.head.size)
    partitions, index = layout.partition.unpack_from(frame, at)
    size, at = layout.size(frame, at + layout.partition.size)
    end = at + size
    if partitions != layout.one or size < 0 or end > len(frame) or frame[end:] != layout.tail:
        return None
    types = _types(version)
    data = types.partition(index=index, records=frame[at:end])
    return types.request(
        acks=acks,
        timeout=milliseconds(timeout),
        topic_data=(types.topic(**{types.key: topic}, partition_data=(data,)),),
    )


def _topic_id(frame: memoryview, at: int) -> tuple[object, int]:
    return uuid(_TOPIC_ID.unpack_from(frame, at)[0]), at + _TOPIC_ID.size


@cache
def _layout(version: int) -> _Layout:
    if version < _FLEXIBLE:
        return _Layout(
            head=struct.Struct(">hhii"),
            null_id=-1,
            one=1,
            topic=sized_reader(string_length, text=True, nullable=False),
            partition=struct.Struct(">ii"),
            size=long_length,
            tail=b"",
        )
    name = sized_reader(compact_length, text=True, nullable=False)
    return _Layout(
        head=struct.Struct(">BhiB"),
        null_id=0,
        one=1 + 1,  # Compact lengths are one higher, so that 0 means null.
        topic=_topic_id if version >= _TOPIC_IDS else name,
        partition=struct.Struct(">Bi"),
        size=compact_length,
        tail=bytes(3),  # Empty tags of partition, topic and request.
    )


@cache
def _types(version: int) -> _Types:
    request = request_type(ApiKey.PRODUCE, version)
    topic = _entity_of(request, "topic_data")
    return _Types(
        request=request,
        topic=topic,
        partition=_entity_of(topic, "partition_data"),
        key="topic_id" if version >= _TOPIC_IDS else "name",
    )


def _entity_of(entity_type: Any, name: str) -> Any:
    return next(shape_of(entity_type, f).entity for f in fields(entity_type) if f.name == name)


_ACKS_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_NO_TAGS = b"\x00"


class PartitionData(NamedTuple):
    """One batch for one partition: its bytes in `parts`, with a total of `size` bytes."""

    partition: int
    parts: Sequence[Buffer]
    size: int


class TopicData(NamedTuple):
    """The batches of one topic; `topic_id` is required since version 13."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionData]


class ProduceHead(NamedTuple):
    """The fields of a Produce request before its topics; `acks` as on the wire (-1 for all)."""

    version: int
    transactional_id: str | None
    acks: int
    timeout_ms: int


def produce_body(head: ProduceHead, topics: Sequence[TopicData]) -> list[Buffer]:
    """Return the request's body as buffers: framing as bytes, batches without a copy."""
    flexible = head.version >= _FLEXIBLE
    framing = bytearray(_string(head.transactional_id, flexible=flexible))
    framing += _ACKS_TIMEOUT.pack(head.acks, head.timeout_ms)
    framing += _length(len(topics), flexible=flexible)
    buffers: list[Buffer] = []
    for topic in topics:
        framing += _topic_key(topic, head.version)
        framing += _length(len(topic.partitions), flexible=flexible)
        for data in topic.partitions:
            framing += _INT32.pack(data.partition) + _length(data.size, flexible=flexible)
            buffers += [bytes(framing), *data.parts]
            framing = bytearray(_NO_TAGS if flexible else b"")
        framing += _NO_TAGS if flexible else b""
    framing += _NO_TAGS if flexible else b""
    return [*buffers, bytes(framing)] if framing else buffers


def _topic_key(topic: TopicData, version: int) -> bytes:
    if version >= _TOPIC_IDS:
        if topic.topic_id is None:
            raise ProtocolError(f"Produce {version} requires the topic id", topic=topic.name)
        return topic.topic_id.bytes
    return _string(topic.name, flexible=version >= _FLEXIBLE)


def _string(text: str | None, *, flexible: bool) -> bytes:
    raw = None if text is None else text.encode()
    if flexible:
        return write_uvarint(0) if raw is None else write_uvarint(len(raw) + 1) + raw
    return _INT16.pack(-1) if raw is None else _INT16.pack(len(raw)) + raw


def _length(count: int, *, flexible: bool) -> bytes:
    return write_uvarint(count + 1) if flexible else _INT32.pack(count)
