"""Read plain Produce requests and write plain responses, as `message_format` would.

A plain request is for one partition and has no transactional id; a plain response contains only
offsets and error codes. `message_format` handles all others, including invalid ones.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import message_format
from spark_kafka_sink.kafka.protocol.produce_layout import (
    FLEXIBLE_VERSION,
    INT32,
    LOG_START_VERSION,
    NO_ID,
    NO_TIME,
    encode_length,
    encode_topic,
    response_layout,
    wire_readers,
)
from spark_kafka_sink.kafka.protocol.versions import PRODUCE_WITH_TOPIC_IDS, ApiKey, request_type

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_PARTITION = struct.Struct(">ihqq")
"""Index, error code, base offset, and log append time in milliseconds."""
_START = struct.Struct(">q")


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
    layout, readers = _request_layout(version), wire_readers(version)
    id_length, acks, timeout, topics = layout.head.unpack_from(frame, position)
    if id_length != layout.null_id or topics != layout.one:
        return None
    topic, position = readers.topic(frame, position + layout.head.size)
    partitions, index = layout.partition.unpack_from(frame, position)
    size, position = readers.length(frame, position + layout.partition.size)
    end = position + size
    tail = 3 * readers.tags  # of the partition, the topic and the request
    if partitions != layout.one or size < 0 or end > len(frame) or frame[end:] != tail:
        return None
    types = _request_types(version)
    data = types.partition(index=index, records=frame[position:end])
    topic = None if topic == NO_ID else topic
    return types.request(
        acks=acks,
        timeout=message_format.milliseconds(timeout),
        topic_data=(types.topic(**{types.key: topic}, partition_data=(data,)),),
    )


@cache
def _request_layout(version: int) -> _RequestLayout:
    if version < FLEXIBLE_VERSION:
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


def try_write_produce_response(version: int, values: FieldValues) -> bytes | None:
    """Write a plain response's body. Return None if the response is not plain."""
    if values.get("node_endpoints"):
        return None
    flexible = version >= FLEXIBLE_VERSION
    plain_tail, tags = response_layout(version).plain_tail, wire_readers(version).tags
    body = bytearray(encode_length(len(values["responses"]), flexible=flexible))
    for topic in values["responses"]:
        topic_id = topic.get("topic_id") or NO_ID
        body += encode_topic(version, topic.get("name"), topic_id)
        body += encode_length(len(topic["partition_responses"]), flexible=flexible)
        for partition in topic["partition_responses"]:
            if _has_details(partition):
                return None
            body += _encode_partition(version, partition) + plain_tail
        body += tags
    throttled = values.get("throttle_time")
    body += INT32.pack(0 if throttled is None else round(throttled.total_seconds() * 1000))
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
    time = NO_TIME if appended is None else round(appended.timestamp() * 1000)
    data = _PARTITION.pack(
        partition["index"], partition["error_code"], partition["base_offset"], time
    )
    if version >= LOG_START_VERSION:
        data += _START.pack(partition.get("log_start_offset", -1))
    return data
