"""Read and write Protobuf messages without a schema, for descriptors and message indexes.

Workers read descriptors with this module, so that they do not need Google's runtime.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from spark_kafka_sink.kafka.protocol.message_format import write_uvarint

_VARINT, _SIZED, _START, _END = 0, 2, 3, 4
"""Wire types."""
_FIXED_SIZES = {1: 8, 5: 4}
"""Bytes of a value by wire type."""
_MAX_VARINT = 10
"""Maximum length of a number in bytes."""
WireMessage: TypeAlias = dict[int, list[Any]]
"""The values of a message by field number. Each value is an int or bytes."""


def parse(data: bytes) -> WireMessage:
    """Return the values of a message. Groups, which only custom options contain, are left out.

    Raises:
        ValueError: the bytes are not a message.
    """
    parsed: WireMessage = {}
    position = groups = 0
    while position < len(data):
        start, position = read_unsigned_varint(data, position)
        number, wire_type = start >> 3, start & 7
        if wire_type in (_START, _END):
            groups += 1 if wire_type == _START else -1
            if groups < 0:
                raise ValueError
            continue
        value: Any
        value, position = _read_value(data, position, wire_type)
        if not groups:
            parsed.setdefault(number, []).append(value)
    if groups:
        raise ValueError
    return parsed


def _read_value(data: bytes, position: int, wire_type: int) -> tuple[Any, int]:
    """Return the value at a position, and the position after it."""
    if wire_type == _VARINT:
        return read_unsigned_varint(data, position)
    if wire_type == _SIZED:
        size, position = read_unsigned_varint(data, position)
    else:
        size = _FIXED_SIZES.get(wire_type, len(data) + 1)
    if position + size > len(data):
        raise ValueError
    return data[position : position + size], position + size


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it.

    Raises:
        ValueError: the number is cut off, or longer than ten bytes.
    """
    value = shift = 0
    for at in range(position, min(position + _MAX_VARINT, len(data))):
        value |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return value, at + 1
        shift += 7
    raise ValueError


def read_string(parsed: WireMessage, field: int) -> str:
    """Return the value of a string field, or "". Raises ValueError for other wire types."""
    return read_strings(parsed, field)[-1] if field in parsed else ""


def read_strings(parsed: WireMessage, field: int) -> list[str]:
    """Return the values of a repeated string field. Raises ValueError for other wire types."""
    return [data.decode() for data in _sized_values(parsed, field)]


def read_number(parsed: WireMessage, field: int, default: int = 0) -> int:
    """Return the value of an integer field, or the default. Raises TypeError for other types."""
    value = parsed.get(field, [default])[-1]
    if not isinstance(value, int):
        raise TypeError
    return value - (1 << 64) if value >> 63 else value


def read_messages(parsed: WireMessage, field: int) -> list[WireMessage]:
    """Return the values of a message field. Raises ValueError if a value is not a message."""
    return [parse(data) for data in _sized_values(parsed, field)]


def _sized_values(parsed: WireMessage, field: int) -> list[bytes]:
    values = parsed.get(field, [])
    if any(isinstance(value, int) for value in values):
        raise ValueError
    return values


def tag(number: int, wire_type: int) -> bytes:
    """Return the bytes that precede a field's value."""
    return write_uvarint(number << 3 | wire_type)


def sized_field(number: int, value: bytes) -> bytes:
    """Return a field with a string, bytes or a message."""
    return tag(number, _SIZED) + write_uvarint(len(value)) + value


def varint_field(number: int, value: int) -> bytes:
    """Return a field with an unsigned integer."""
    return tag(number, _VARINT) + write_uvarint(value)
