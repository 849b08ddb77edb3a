"""Read and write Produce responses.

- `produce_response_reader` (client side) reads a response into a `ProduceResponse`.
- `plain_produce_response` (broker side) writes a response.

Both handle plain responses, which contain only offsets and error codes, without the generic reader
or writer: with small batches that would take longer than processing the response or appending to
the log. Responses that name records, leaders or endpoints are rare and handled by `codec`, and so
are invalid ones, for its error messages. Source: ``ProduceResponse.json``, versions 3 to 13.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.codec import (
    BAD_BYTES,
    Reader,
    compact_length,
    long_length,
    sized_reader,
    string_length,
    write_uvarint,
)
from spark_kafka_sink.protocol.messages import Values, read_response
from spark_kafka_sink.protocol.versions import ApiKey, response_type

if TYPE_CHECKING:
    from collections.abc import Callable


TopicKey: TypeAlias = str | UUID
"""A topic's name, or its id since version 13."""

_STARTS_FROM: Final = 5
_ERRORS_FROM: Final = 8
_FLEXIBLE: Final = 9
TOPIC_IDS: Final = 13
_CORRELATION_ID: Final = 4
"""Size in bytes of the correlation id, which precedes the header's tags or the body."""
_NO_TIME: Final = -1
_INT32: Final = struct.Struct(">i")
_TOPIC_ID: Final = struct.Struct(">16s")
_NO_ID: Final = UUID(int=0)


class PartitionResponse(NamedTuple):
    """A Produce response for one partition; `leader` is -1 if the response names none.

    `append_time` is LogAppendTime in milliseconds, None if the topic uses CreateTime.
    `record_errors` are pairs of a record's index in the batch and a message.
    """

    code: int
    base_offset: int = -1
    append_time: int | None = None
    message: str | None = None
    leader: int = -1
    leader_epoch: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class ProduceResponse:
    """The response for each partition, by topic and partition number.

    `nodes` are the endpoints in the response (KIP-951): id, host and port.
    """

    partitions: dict[tuple[TopicKey, int], PartitionResponse]
    throttle_ms: int = 0
    nodes: tuple[tuple[int, str, int], ...] = field(default=())


@cache
def produce_response_reader(version: int) -> Callable[[memoryview], ProduceResponse]:
    """Return the reader of a frame of this version; it raises ProtocolError like `codec`."""
    return partial(_read, version)


def from_message(message: Any) -> ProduceResponse:
    """Convert a response that `codec` has read."""
    partitions: dict[tuple[TopicKey, int], PartitionResponse] = {}
    for topic in message.responses:
        key = topic.name if hasattr(topic, "name") else topic.topic_id or _NO_ID
        for answer in topic.partition_responses:
            partitions[key, int(answer.index)] = _from_message(answer)
    endpoints = getattr(message, "node_endpoints", ())
    throttled = getattr(message, "throttle_time", None)
    return ProduceResponse(
        partitions,
        0 if throttled is None else round(throttled.total_seconds() * 1000),
        tuple((int(each.node_id), each.host, int(each.port)) for each in endpoints),
    )


def _from_message(answer: Any) -> PartitionResponse:
    hint = getattr(answer, "current_leader", None)
    errors = getattr(answer, "record_errors", ())
    appended = answer.log_append_time
    return PartitionResponse(
        code=int(answer.error_code),
        base_offset=int(answer.base_offset),
        append_time=None if appended is None else round(appended.timestamp() * 1000),
        message=getattr(answer, "error_message", None),
        leader=-1 if hint is None else int(hint.leader_id),
        leader_epoch=-1 if hint is None else int(hint.leader_epoch),
        record_errors=tuple((int(e.batch_index), e.batch_index_error_message) for e in errors),
    )


def _read(version: int, frame: memoryview) -> ProduceResponse:
    try:
        plain = _read_plain(_layout(version), frame)
    except (*BAD_BYTES, ProtocolError):
        plain = None
    if plain is not None:
        return plain
    return from_message(read_response(response_type(ApiKey.PRODUCE, version), frame)[1])


class _Layout(NamedTuple):
    """A version's layout of a plain response, which contains only offsets and error codes.

    `head`: the bytes between correlation id and body. `partition`: index, error code, base offset,
    append time, and the bytes after the log start offset, which equal `plain_tail`. `tags` follow
    each topic and the whole response.
    """

    head: bytes
    length: Reader
    topic: Reader
    partition: struct.Struct
    plain_tail: bytes
    tags: bytes


def _read_plain(layout: _Layout, frame: memoryview) -> ProduceResponse | None:
    """Read a plain response; return None if `codec` must read it."""
    _, length, topic_key, answer, plain_tail, tags = layout
    unpack, size = answer.unpack_from, answer.size
    at = _CORRELATION_ID + len(layout.head)
    if frame[_CORRELATION_ID:at] != layout.head:
        return None
    partitions: dict[tuple[TopicKey, int], PartitionResponse] = {}
    topics, at = length(frame, at)
    if topics < 0:
        return None
    for _ in range(topics):
        key, at = topic_key(frame, at)
        answers, at = length(frame, at)
        if answers < 0:
            return None
        for _ in range(answers):
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
def _layout(version: int) -> _Layout:
    start = "" if version < _STARTS_FROM else "8x"
    if version < _FLEXIBLE:
        plain_tail = b"" if version < _ERRORS_FROM else b"\0\0\0\0\xff\xff"
        return _Layout(
            head=b"",
            length=long_length,
            topic=sized_reader(string_length, text=True, nullable=False),
            partition=struct.Struct(f">ihqq{start}{len(plain_tail)}s"),
            plain_tail=plain_tail,
            tags=b"",
        )
    name = sized_reader(compact_length, text=True, nullable=False)
    return _Layout(
        head=b"\0",
        length=compact_length,
        topic=_topic_id if version >= TOPIC_IDS else name,
        partition=struct.Struct(f">ihqq{start}3s"),
        plain_tail=b"\x01\0\0",  # No record errors, no message, empty tags.
        tags=b"\0",
    )


def _topic_id(frame: memoryview, at: int) -> tuple[UUID, int]:
    return UUID(bytes=_TOPIC_ID.unpack_from(frame, at)[0]), at + _TOPIC_ID.size


_TOPIC_IDS = 13
_PARTITION = struct.Struct(">ihqq")
"""Index, error code, base offset, log append time in milliseconds."""
_START = struct.Struct(">q")
_INT16 = struct.Struct(">h")


def plain_produce_response(version: int, values: Values) -> bytes | None:
    """Write a plain response's body; None if it contains more than offsets and error codes."""
    if values.get("node_endpoints"):
        return None
    flexible = version >= _FLEXIBLE
    body = bytearray(_count(len(values["responses"]), flexible=flexible))
    for topic in values["responses"]:
        body += _topic(version, topic)
        body += _count(len(topic["partition_responses"]), flexible=flexible)
        for partition in topic["partition_responses"]:
            if _has_details(partition):
                return None
            body += _partition(version, partition)
        body += b"\0" if flexible else b""
    throttled = values.get("throttle_time")
    body += _INT32.pack(0 if throttled is None else round(throttled.total_seconds() * 1000))
    body += b"\0" if flexible else b""
    return bytes(body)


def _has_details(answer: Values) -> bool:
    return bool(
        answer.get("record_errors") or answer.get("error_message") or answer.get("current_leader")
    )


def _topic(version: int, topic: Values) -> bytes:
    if version >= _TOPIC_IDS:
        found = topic.get("topic_id")
        return bytes(16) if found is None else bytes(found.bytes)
    name = topic["name"].encode()
    size = write_uvarint(len(name) + 1) if version >= _FLEXIBLE else _INT16.pack(len(name))
    return bytes(size + name)


def _partition(version: int, answer: Values) -> bytes:
    appended: Any = answer.get("log_append_time")
    time = _NO_TIME if appended is None else round(appended.timestamp() * 1000)
    data = _PARTITION.pack(answer["index"], answer["error_code"], answer["base_offset"], time)
    if version >= _STARTS_FROM:
        data += _START.pack(answer.get("log_start_offset", -1))
    if version >= _FLEXIBLE:
        return data + b"\x01\0\0"  # No record errors, no message, empty tags.
    return data + b"\0\0\0\0\xff\xff" if version >= _ERRORS_FROM else data


def _count(items: int, *, flexible: bool) -> bytes:
    return write_uvarint(items + 1) if flexible else _INT32.pack(items)
