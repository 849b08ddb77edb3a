"""Write Produce requests and read their responses, without copying records.

- `produce_body` writes the fields around batches, which are never copied.
- `produce_response_reader` reads a plain response, which contains only offsets and error codes;
  `message_format` reads all others, including invalid ones.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import message_format
from spark_kafka_sink.kafka.protocol.messages import read_response
from spark_kafka_sink.kafka.protocol.produce_layout import (
    FLEXIBLE_VERSION,
    INT32,
    NO_ID,
    NO_TAGS,
    NO_TIME,
    encode_length,
    encode_string,
    encode_topic,
    response_layout,
    wire_readers,
)
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer


TopicKey: TypeAlias = str | UUID
"""A topic's name or, since version 13, its id."""

_CORRELATION_ID = 4
"""Size in bytes of the correlation id, which precedes the header's tags or the body."""
_ACKS_TIMEOUT = struct.Struct(">hi")


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
    flexible = version >= FLEXIBLE_VERSION
    framing = bytearray(encode_string(transactional_id, flexible=flexible))
    framing += _ACKS_TIMEOUT.pack(acks, timeout_ms)
    framing += encode_length(len(topics), flexible=flexible)
    buffers: list[Buffer] = []
    for topic in topics:
        framing += encode_topic(version, topic.name, topic.topic_id)
        framing += encode_length(len(topic.partitions), flexible=flexible)
        for data in topic.partitions:
            framing += INT32.pack(data.partition) + encode_length(data.size, flexible=flexible)
            buffers += [bytes(framing), *data.buffers]
            framing = bytearray(NO_TAGS if flexible else b"")
        framing += NO_TAGS if flexible else b""
    framing += NO_TAGS if flexible else b""
    return [*buffers, bytes(framing)] if framing else buffers


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
        key = topic.name if hasattr(topic, "name") else topic.topic_id or NO_ID
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


def _read_plain(version: int, frame: memoryview) -> ProduceResponse | None:
    """Read a plain response. Return None if `message_format` must read it."""
    (length, topic_key, tags) = wire_readers(version)
    (partition, plain_tail) = response_layout(version)
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
            appended = None if time == NO_TIME else time
            partitions[key, index] = PartitionResponse(code, base_offset, appended)
            at += size
        if frame[at : at + len(tags)] != tags:
            return None
        at += len(tags)
    throttle_ms = INT32.unpack_from(frame, at)[0]
    at += INT32.size
    if frame[at : at + len(tags)] != tags:
        return None
    return ProduceResponse(partitions, throttle_ms)
