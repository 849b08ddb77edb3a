"""The Produce request as a broker gets it, read by hand where it is of one partition and plain.

A broker that takes small batches spends more on a generic reader than on the log. What comes out
is what `codec` makes of the same bytes; all that is special or broken is left to it. Source:
``ProduceRequest.json``, versions 3 to 13.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from functools import cache
from typing import Any, Final, NamedTuple

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.codec import BAD_BYTES
from spark_kafka_sink.protocol.primitives import (
    Reader,
    compact_length,
    long_length,
    milliseconds,
    sized_reader,
    string_length,
    uuid,
)
from spark_kafka_sink.protocol.schema import shape_of
from spark_kafka_sink.protocol.versions import ApiKey, request_type

_FLEXIBLE: Final = 9
_TOPIC_IDS: Final = 13
_TOPIC_ID: Final = struct.Struct(">16s")


class _Layout(NamedTuple):
    """How a version writes a request without transactional id, of one topic and partition.

    `head` is length of the transactional id, acks, timeout and number of topics; `partition` the
    number of partitions and the index of the first. `tail` follows the records.
    """

    head: struct.Struct
    no_id: int
    one: int
    topic: Reader
    partition: struct.Struct
    size: Reader
    tail: bytes


class _Types(NamedTuple):
    """The classes of a version, and the field that says which topic."""

    request: Any
    topic: Any
    partition: Any
    key: str


def plain_produce_request(version: int, frame: memoryview, at: int) -> Any | None:
    """Read the body of a request; None where `codec` has to, of which broken ones are too."""
    try:
        return _read(version, frame, at)
    except (*BAD_BYTES, ProtocolError):
        return None


def _read(version: int, frame: memoryview, at: int) -> Any | None:
    layout = _layout(version)
    no_id, acks, timeout, topics = layout.head.unpack_from(frame, at)
    if no_id != layout.no_id or topics != layout.one:
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
            no_id=-1,
            one=1,
            topic=sized_reader(string_length, text=True, nullable=False),
            partition=struct.Struct(">ii"),
            size=long_length,
            tail=b"",
        )
    name = sized_reader(compact_length, text=True, nullable=False)
    return _Layout(
        head=struct.Struct(">BhiB"),
        no_id=0,
        one=1 + 1,  # Compact lengths count one more, so that 0 is null.
        topic=_topic_id if version >= _TOPIC_IDS else name,
        partition=struct.Struct(">Bi"),
        size=compact_length,
        tail=bytes(3),  # No tags of partition, topic and request.
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
