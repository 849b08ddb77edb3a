"""Read and write Produce requests and responses without copying records.

- `produce_body` (client side) writes the framing around batches, which are never copied.
- `produce_response_reader` (client side) reads a response into a `ProduceResponse`.
- `try_read_produce_request` (broker side) reads a request for one partition without a
  transactional id.
- `try_write_produce_response` (broker side) writes a response.

Plain responses contain only offsets and error codes. With small batches, the generic reader and
writer would take longer than appending to the log or handling the response. The results are the
same as those of `message_format`, which handles all other requests and responses, including invalid
data.

Sources: ``ProduceRequest.json`` and ``ProduceResponse.json``: versions 3 to 13, flexible since 9,
topic ids since 13 (KIP-516).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import message_format
from spark_kafka_sink.kafka.protocol.messages import FieldValues, read_response
from spark_kafka_sink.kafka.protocol.versions import (
    PRODUCE_WITH_TOPIC_IDS,
    ApiKey,
    request_type,
    response_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer


TopicKey: TypeAlias = str | UUID
"""A topic's name or, since version 13, its id."""

_LOG_START_VERSION = 5
"""First version whose responses have the log start offset."""
_RECORD_ERRORS_VERSION = 8
"""First version whose responses have the errors of records."""
_FLEXIBLE_VERSION = 9
"""First version with compact lengths and tagged fields."""
_CORRELATION_ID = 4
"""Size in bytes of the correlation id, which precedes the header's tags or the body."""
_NO_TIME = -1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_TOPIC_ID = struct.Struct(">16s")
_NO_ID = UUID(int=0)
_NO_TAGS = b"\x00"
_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">ihqq")
"""Index, error code, base offset, and log append time in milliseconds."""
_START = struct.Struct(">q")


class _WireReaders(NamedTuple):
    """The framing of a version: readers of lengths and topics, and the bytes of empty tags."""

    length: message_format.Reader
    topic: message_format.Reader
    tags: bytes


@cache
def _wire_readers(version: int) -> _WireReaders:
    flexible = version >= _FLEXIBLE_VERSION
    length_of = message_format.compact_length if flexible else message_format.string_length
    name = message_format.sized_reader(length_of, text=True, nullable=False)
    return _WireReaders(
        length=message_format.compact_length if flexible else message_format.long_length,
        topic=_topic_id if version >= PRODUCE_WITH_TOPIC_IDS else name,
        tags=_NO_TAGS if flexible else b"",
    )


def _topic_id(frame: memoryview, position: int) -> tuple[UUID, int]:
    return UUID(bytes=_TOPIC_ID.unpack_from(frame, position)[0]), position + _TOPIC_ID.size


class _RequestLayout(NamedTuple):
    """The layout of a request in one version, for one partition and without a transactional id."""

    head: struct.Struct
    """The length of the transactional id, acks, timeout and topic count."""
    null_id: int
    """The encoding of a null id."""
    one: int
    """The encoding of a count of 1."""
    partition: struct.Struct
    """The partition count and the index of the first partition."""


class _Types(NamedTuple):
    """The message classes of a version."""

    request: Any
    topic: Any
    partition: Any
    key: str
    """The field that identifies the topic."""


def try_read_produce_request(version: int, frame: memoryview, position: int) -> Any | None:
    """Read the body of a plain request. Return None if the request is not plain or is invalid."""
    try:
        return _read_request(version, frame, position)
    except (*message_format.BAD_BYTES, ProtocolError):
        return None


def _read_request(version: int, frame: memoryview, position: int) -> Any | None:
    layout, framing = _request_layout(version), _wire_readers(version)
    id_length, acks, timeout, topics = layout.head.unpack_from(frame, position)
    if id_length != layout.null_id or topics != layout.one:
        return None
    topic, position = framing.topic(frame, position + layout.head.size)
    partitions, index = layout.partition.unpack_from(frame, position)
    size, position = framing.length(frame, position + layout.partition.size)
    end = position + size
    tail = 3 * framing.tags  # of the partition, the topic and the request
    if partitions != layout.one or size < 0 or end > len(frame) or frame[end:] != tail:
        return None
    types = _request_types(version)
    data = types.partition(index=index, records=frame[position:end])
    topic = None if topic == _NO_ID else topic
    return types.request(
        acks=acks,
        timeout=message_format.milliseconds(timeout),
        topic_data=(types.topic(**{types.key: topic}, partition_data=(data,)),),
    )


@cache
def _request_layout(version: int) -> _RequestLayout:
    if version < _FLEXIBLE_VERSION:
        return _RequestLayout(struct.Struct(">hhii"), -1, 1, struct.Struct(">ii"))
    # Compact lengths are one higher, so that 0 means null.
    return _RequestLayout(struct.Struct(">BhiB"), 0, 1 + 1, struct.Struct(">Bi"))


@cache
def _request_types(version: int) -> _Types:
    request = request_type(ApiKey.PRODUCE, version)
    topic = _entity_of(request, "topic_data")
    return _Types(
        request=request,
        topic=topic,
        partition=_entity_of(topic, "partition_data"),
        key="topic_id" if version >= PRODUCE_WITH_TOPIC_IDS else "name",
    )


def _entity_of(entity_type: Any, name: str) -> Any:
    return next(
        message_format.wire_field_of(entity_type, entity_field).entity
        for entity_field in fields(entity_type)
        if entity_field.name == name
    )


class PartitionData(NamedTuple):
    """One batch for one partition."""

    partition: int
    buffers: Sequence[Buffer]
    size: int
    """The total size of the buffers, in bytes."""


class TopicData(NamedTuple):
    """The batches of one topic."""

    name: str
    topic_id: UUID | None
    """Required since version 13."""
    partitions: Sequence[PartitionData]


def produce_body(
    version: int,
    topics: Sequence[TopicData],
    *,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
) -> list[Buffer]:
    """Return the request's body as buffers: the framing as bytes, and batches without copying.

    `acks` is -1 for all.
    """
    flexible = version >= _FLEXIBLE_VERSION
    framing = bytearray(_encode_string(transactional_id, flexible=flexible))
    framing += _ACKS_TIMEOUT.pack(acks, timeout_ms)
    framing += _length(len(topics), flexible=flexible)
    buffers: list[Buffer] = []
    for topic in topics:
        framing += _topic_key(version, topic.name, topic.topic_id)
        framing += _length(len(topic.partitions), flexible=flexible)
        for data in topic.partitions:
            framing += _INT32.pack(data.partition) + _length(data.size, flexible=flexible)
            buffers += [bytes(framing), *data.buffers]
            framing = bytearray(_NO_TAGS if flexible else b"")
        framing += _NO_TAGS if flexible else b""
    framing += _NO_TAGS if flexible else b""
    return [*buffers, bytes(framing)] if framing else buffers


def _topic_key(version: int, name: str | None, topic_id: UUID | None) -> bytes:
    if version < PRODUCE_WITH_TOPIC_IDS:
        return _encode_string(name, flexible=version >= _FLEXIBLE_VERSION)
    if topic_id is None:
        raise ProtocolError(f"Produce {version} requires the topic id", topic=name)
    return topic_id.bytes


def _encode_string(text: str | None, *, flexible: bool) -> bytes:
    raw = b"" if text is None else text.encode()
    length = -1 if text is None else len(raw)
    return (message_format.write_uvarint(length + 1) if flexible else _INT16.pack(length)) + raw


def _length(count: int, *, flexible: bool) -> bytes:
    return message_format.write_uvarint(count + 1) if flexible else _INT32.pack(count)


class PartitionResponse(NamedTuple):
    """A Produce response for one partition."""

    code: int
    base_offset: int = -1
    append_time: int | None = None
    """LogAppendTime in milliseconds; None if the topic uses CreateTime."""
    message: str | None = None
    leader: int = -1
    """-1 if the response contains no leader."""
    leader_epoch: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()
    """Pairs of a record's index in the batch and a message."""


@dataclass(frozen=True, slots=True)
class ProduceResponse:
    """The responses by topic and partition number."""

    partitions: dict[tuple[TopicKey, int], PartitionResponse]
    throttle_ms: int = 0
    nodes: tuple[tuple[int, str, int], ...] = field(default=())
    """The endpoints in the response (KIP-951): id, host and port."""


@cache
def produce_response_reader(version: int) -> Callable[[memoryview], ProduceResponse]:
    """Return the reader of a frame of this version. It raises ProtocolError."""
    return partial(_read_response, version)


def from_message(message: Any) -> ProduceResponse:
    """Convert a response that `message_format` read."""
    partitions: dict[tuple[TopicKey, int], PartitionResponse] = {}
    for topic in message.responses:
        key = topic.name if hasattr(topic, "name") else topic.topic_id or _NO_ID
        for partition in topic.partition_responses:
            partitions[key, int(partition.index)] = _from_message(partition)
    endpoints = getattr(message, "node_endpoints", ())
    throttled = getattr(message, "throttle_time", None)
    return ProduceResponse(
        partitions,
        0 if throttled is None else round(throttled.total_seconds() * 1000),
        tuple((int(endpoint.node_id), endpoint.host, int(endpoint.port)) for endpoint in endpoints),
    )


def _from_message(partition: Any) -> PartitionResponse:
    hint = getattr(partition, "current_leader", None)
    errors = getattr(partition, "record_errors", ())
    appended = partition.log_append_time
    return PartitionResponse(
        code=int(partition.error_code),
        base_offset=int(partition.base_offset),
        append_time=None if appended is None else round(appended.timestamp() * 1000),
        message=getattr(partition, "error_message", None),
        leader=-1 if hint is None else int(hint.leader_id),
        leader_epoch=-1 if hint is None else int(hint.leader_epoch),
        record_errors=tuple(
            (int(error.batch_index), error.batch_index_error_message) for error in errors
        ),
    )


def _read_response(version: int, frame: memoryview) -> ProduceResponse:
    try:
        plain = _read_plain(version, frame)
    except (*message_format.BAD_BYTES, ProtocolError):
        plain = None
    if plain is not None:
        return plain
    return from_message(read_response(response_type(ApiKey.PRODUCE, version), frame)[1])


class _ResponseLayout(NamedTuple):
    """The layout of a plain response in one version, with only offsets and error codes."""

    partition: struct.Struct
    """The index, error code, base offset and append time, and the bytes after the log start offset,
    which equal `plain_tail`.
    """
    plain_tail: bytes


def _read_plain(version: int, frame: memoryview) -> ProduceResponse | None:
    """Read a plain response. Return None if `message_format` must read it."""
    (length, topic_key, tags) = _wire_readers(version)
    (partition, plain_tail) = _response_layout(version)
    unpack, size = partition.unpack_from, partition.size
    at = _CORRELATION_ID + len(tags)
    if frame[_CORRELATION_ID:at] != tags:  # of the header
        return None
    partitions: dict[tuple[TopicKey, int], PartitionResponse] = {}
    topics, at = length(frame, at)
    if topics < 0:
        return None
    for _ in range(topics):
        key, at = topic_key(frame, at)
        count, at = length(frame, at)
        if count < 0:
            return None
        for _ in range(count):
            index, code, base_offset, time, rest = unpack(frame, at)
            if rest != plain_tail:
                return None
            appended = None if time == _NO_TIME else time
            partitions[key, index] = PartitionResponse(code, base_offset, appended)
            at += size
        if frame[at : at + len(tags)] != tags:
            return None
        at += len(tags)
    throttle_ms = _INT32.unpack_from(frame, at)[0]
    at += _INT32.size
    if frame[at : at + len(tags)] != tags:
        return None
    return ProduceResponse(partitions, throttle_ms)


@cache
def _response_layout(version: int) -> _ResponseLayout:
    if version >= _FLEXIBLE_VERSION:
        plain_tail = b"\x01\0\0"  # no record errors, no message, empty tags
    else:
        plain_tail = b"" if version < _RECORD_ERRORS_VERSION else b"\0\0\0\0\xff\xff"
    start = "" if version < _LOG_START_VERSION else "8x"
    return _ResponseLayout(struct.Struct(f">ihqq{start}{len(plain_tail)}s"), plain_tail)


def try_write_produce_response(version: int, values: FieldValues) -> bytes | None:
    """Write a plain response's body. Return None if the response is not plain."""
    if values.get("node_endpoints"):
        return None
    flexible = version >= _FLEXIBLE_VERSION
    plain_tail, tags = _response_layout(version).plain_tail, _wire_readers(version).tags
    body = bytearray(_length(len(values["responses"]), flexible=flexible))
    for topic in values["responses"]:
        topic_id = topic.get("topic_id") or _NO_ID
        body += _topic_key(version, topic.get("name"), topic_id)
        body += _length(len(topic["partition_responses"]), flexible=flexible)
        for partition in topic["partition_responses"]:
            if _has_details(partition):
                return None
            body += _encode_partition(version, partition) + plain_tail
        body += tags
    throttled = values.get("throttle_time")
    body += _INT32.pack(0 if throttled is None else round(throttled.total_seconds() * 1000))
    body += tags
    return bytes(body)


def _has_details(partition: FieldValues) -> bool:
    return bool(
        partition.get("record_errors")
        or partition.get("error_message")
        or partition.get("current_leader")
    )


def _encode_partition(version: int, partition: FieldValues) -> bytes:
    appended: Any = partition.get("log_append_time")
    time = _NO_TIME if appended is None else round(appended.timestamp() * 1000)
    data = _PARTITION.pack(
        partition["index"], partition["error_code"], partition["base_offset"], time
    )
    if version >= _LOG_START_VERSION:
        data += _START.pack(partition.get("log_start_offset", -1))
    return data
