"""Answers to Produce requests that no broker gave."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import (
    build,
    read_request_header,
    read_response,
    response_frame,
)
from spark_kafka_sink.protocol.versions import ApiKey, request_type, response_type


def refusal(frame: bytes, code: int) -> bytes:
    """The answer, with its size, that says `code` of each partition of a Produce request."""
    header = read_request_header(frame)
    kind = request_type(ApiKey.PRODUCE, header.version)
    request, _ = decode(kind, frame, header.body_offset)
    answer = {"responses": [_topic(topic, code) for topic in request.topic_data]}
    entity = build(response_type(ApiKey.PRODUCE, header.version), answer)
    return response_frame(entity, header.correlation_id)


def _topic(topic: Any, code: int) -> dict[str, Any]:
    entries = [
        {
            "index": part.index,
            "error_code": ErrorCode(code),
            "base_offset": -1,
            "log_append_time": None,
            "log_start_offset": -1,
        }
        for part in topic.partition_data
    ]
    named = {name: getattr(topic, name) for name in ("name", "topic_id") if hasattr(topic, name)}
    return {**named, "partition_responses": entries}


def is_success(frame: bytes, version: int) -> bool:
    """Whether a broker's answer to a Produce request accepts every partition."""
    _, answer = read_response(response_type(ApiKey.PRODUCE, version), frame)
    return all(
        part.error_code == ErrorCode.none
        for topic in answer.responses
        for part in topic.partition_responses
    )
