"""The Produce response of a broker, written by hand where every partition's answer is plain.

A broker that takes small batches spends more on a generated writer than on the log. Answers that
name records, leaders or endpoints are rare and go through `codec`. Source:
``ProduceResponse.json``, versions 3 to 13.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.primitives import write_uvarint

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.message_builder import Values

_FLEXIBLE = 9
_TOPIC_IDS = 13
_NO_TIME = -1
_STARTS_FROM, _ERRORS_FROM = 5, 8
_PARTITION = struct.Struct(">ihqq")
"""Index, error code, base offset, log append time in milliseconds."""
_START = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


def plain_produce_response(version: int, values: Values) -> bytes | None:
    """Write a response's body; None where it says more than offsets and error codes."""
    if values.get("node_endpoints"):
        return None
    flexible = version >= _FLEXIBLE
    body = bytearray(_count(len(values["responses"]), flexible=flexible))
    for topic in values["responses"]:
        body += _topic(version, topic)
        body += _count(len(topic["partition_responses"]), flexible=flexible)
        for partition in topic["partition_responses"]:
            if _says_more(partition):
                return None
            body += _partition(version, partition)
        body += b"\0" if flexible else b""
    throttled = values.get("throttle_time")
    body += _INT32.pack(0 if throttled is None else round(throttled.total_seconds() * 1000))
    body += b"\0" if flexible else b""
    return bytes(body)


def _says_more(answer: Values) -> bool:
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
        return data + b"\x01\0\0"  # No record errors, no message, no tags.
    return data + b"\0\0\0\0\xff\xff" if version >= _ERRORS_FROM else data


def _count(items: int, *, flexible: bool) -> bytes:
    return write_uvarint(items + 1) if flexible else _INT32.pack(items)
