"""Request and response headers and frames, and messages built from plain values.

The versions of an API differ by a few fields. `build` creates a message of any version from a tree
of plain values, whose names are the fields of the newest version. Fields missing from a version are
omitted, and fields without a value get the schema's default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from kio.schema.request_header.v2 import RequestHeader as FlexibleRequestHeader

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import message_format
from spark_kafka_sink.kafka.protocol.send_buffers import gather
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type

if TYPE_CHECKING:
    from kio.static.protocol import ResponsePayload
    from typing_extensions import Buffer


P = TypeVar("P", bound="ResponsePayload")

_SIZE = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_CLIENT_ID = message_format.sized_reader(message_format.string_length, text=True, nullable=True)
_EMPTY_TAGS = b"\x00"
FieldValues: TypeAlias = Mapping[str, Any]
"""Values by field name. Structs are nested mappings, and arrays are iterables."""


class RequestHeader(NamedTuple):
    """A request header of any version, and the offset of the body in the frame."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def request_header(payload_type: type[Any], correlation_id: int, client_id: str | None) -> bytes:
    """Write a request's header: v1, or v2 with empty tags. The client id is never compact."""
    name = None if client_id is None else client_id.encode()
    return b"".join(
        (
            _REQUEST.pack(payload_type.__api_key__, payload_type.__version__, correlation_id),
            struct.pack(">h", -1 if name is None else len(name)),
            name or b"",
            _EMPTY_TAGS if payload_type.__header_schema__ is FlexibleRequestHeader else b"",
        )
    )


def read_request_start(frame: memoryview | bytes) -> tuple[int, int, int]:
    """Read the API key, version and correlation id, which have the same format in all requests.

    Raises:
        ProtocolError: the frame is too short.
    """
    if len(frame) < _REQUEST.size:
        raise ProtocolError(f"request too short: {len(frame)} bytes")
    api_key, version, correlation_id = _REQUEST.unpack_from(frame)
    return api_key, version, correlation_id


def read_request_header(frame: memoryview | bytes) -> RequestHeader:
    """Read a request's header from a frame without its size field.

    Raises:
        ProtocolError: the header is invalid, or its API or version does not exist.
    """
    view = memoryview(frame)
    try:
        api_key, version, correlation_id = _REQUEST.unpack_from(view)
        client_id, at = _CLIENT_ID(view, _REQUEST.size)
        if request_type(api_key, version).__header_schema__ is FlexibleRequestHeader:
            at = _skip_tags(view, at)
    except message_format.BAD_BYTES as error:
        raise ProtocolError(f"invalid request header: {error}") from error
    return RequestHeader(
        api_key=api_key,
        version=version,
        correlation_id=correlation_id,
        client_id=client_id,
        body_offset=at,
    )


def _skip_tags(view: memoryview, position: int) -> int:
    count, position = message_format.read_uvarint(view, position)
    for _ in range(count):
        _, position = message_format.read_uvarint(view, position)
        size, position = message_format.read_uvarint(view, position)
        position += size
        if position > len(view):
            raise ProtocolError("a tagged field of the header extends past the end of the frame")
    return position


def response_header(response_type: type[Any], correlation_id: int) -> bytes:
    """Write a response's header: v0, or v1 with empty tags."""
    tags = _EMPTY_TAGS if response_type.__header_schema__.__flexible__ else b""
    return _SIZE.pack(correlation_id) + tags


def framed(header: bytes, body: bytes) -> bytes:
    """Return a frame: size, header and body."""
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))


def response_buffers(payload: ResponsePayload, correlation_id: int) -> list[bytes | memoryview]:
    """Write a complete response as buffers to send in order. Large records are not copied."""
    header = response_header(type(payload), correlation_id)
    body = gather(payload, header)
    first, *rest = body.buffers
    return [_SIZE.pack(body.size) + first, *(memoryview(part) for part in rest if len(part))]


def read_correlation_id(frame: memoryview | bytes) -> int:
    """Read the correlation id of a response.

    Raises:
        ProtocolError: the frame is too short.
    """
    if len(frame) < _SIZE.size:
        raise ProtocolError(f"response too short: {len(frame)} bytes")
    return int(_SIZE.unpack_from(frame)[0])


def read_response(response_type: type[P], frame: memoryview | bytes) -> tuple[int, P]:
    """Read a response of a known type from a frame without its size field.

    ApiVersions responses have header v0 in all versions, so that a client can read them before
    versions are negotiated. Bytes after the body are ignored, as in Kafka's own clients.

    Returns:
        The correlation id and the message.

    Raises:
        ProtocolError: the bytes are not a response of this type.
    """
    view = memoryview(frame)
    correlation_id = read_correlation_id(view)
    at = _SIZE.size
    try:
        if response_type.__header_schema__.__flexible__:
            at = _skip_tags(view, at)
    except message_format.BAD_BYTES as error:
        raise ProtocolError(f"invalid response header: {error}") from error
    payload, _ = message_format.decode(response_type, view, at)
    return correlation_id, payload


def build(entity_type: Any, values: FieldValues) -> Any:
    """Return a message of `entity_type`. Values without a matching field are ignored."""
    return entity_type(
        **{
            name: convert(values[name]) if name in values else default
            for name, convert, default in _field_plan(entity_type)
        }
    )


def encode_request(api: ApiKey, version: int, values: FieldValues) -> list[Buffer]:
    """Write a request's body from a tree of plain values."""
    return [message_format.encode(build(request_type(api, version), values))]


@cache
def _field_plan(entity_type: Any) -> tuple[tuple[str, Callable[[Any], Any], Any], ...]:
    wire_fields = [
        message_format.wire_field_of(entity_type, field) for field in fields(entity_type)
    ]
    return tuple((field.name, _converter_of(field), field.default) for field in wire_fields)


def _converter_of(field: message_format.WireField) -> Callable[[Any], Any]:
    entity: Any = field.entity
    if field.is_array:
        if entity is None:
            return lambda items: None if items is None else tuple(items)
        return lambda items: None if items is None else tuple(build(entity, item) for item in items)
    if entity is None:
        return lambda value: value
    return lambda value: None if value is None else build(entity, value)
