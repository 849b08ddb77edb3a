"""Read and write Protobuf messages without a schema, for descriptors and message indexes.

Workers read descriptors with this module, so that they do not need Google's runtime.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from spark_kafka_sink.kafka.protocol.codec import write_uvarint

_VARINT, _SIZED, _START, _END = 0, 2, 3, 4
"""Wire types."""
_FIXED_SIZES: Final = {1: 8, 5: 4}
"""Bytes of a value by wire type."""
Parsed: TypeAlias = dict[int, list[Any]]
"""The values of a message by field number. Each value is an int or bytes."""


def parse(data: bytes) -> Parsed:
    """Return the values of a message. Groups, which only custom options contain, are left out.

    Raises:
        ValueError: the bytes are not a message.
        IndexError: a number is cut off.
    """
    parsed: Parsed = {}
    position = groups = 0
    while position < len(data):
        start, position = read_varint(data, position)
        number, wire_type = start >> 3, start & 7
        if wire_type in (_START, _END):
            groups += 1 if wire_type == _START else -1
            if groups < 0:
                raise ValueError
            continue
        value: Any
        value, position = _value(data, position, wire_type)
        if not groups:
            parsed.setdefault(number, []).append(value)
    if groups:
        raise ValueError
    return parsed


def _value(data: bytes, position: int, wire_type: int) -> tuple[Any, int]:
    """Return the value at a position, and the position after it."""
    if wire_type == _VARINT:
        return read_varint(data, position)
    if wire_type == _SIZED:
        size, position = read_varint(data, position)
    else:
        size = _FIXED_SIZES.get(wire_type, len(data) + 1)
    if position + size > len(data):
        raise ValueError
    return data[position : position + size], position + size


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it."""
    value = shift = 0
    while data[position] & 0x80:
        value |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | data[position] << shift, position + 1


def text_of(parsed: Parsed, field: int) -> str:
    """Return the value of a string field, or an empty string."""
    return bytes(parsed[field][-1]).decode() if field in parsed else ""


def number_of(parsed: Parsed, field: int, default: int = 0) -> int:
    """Return the value of an integer field, or the default."""
    value = int(parsed.get(field, [default])[-1])
    return value - (1 << 64) if value >> 63 else value


def parts_of(parsed: Parsed, field: int) -> list[Parsed]:
    """Return the values of a message field."""
    return [parse(data) for data in parsed.get(field, [])]


def tag(number: int, wire_type: int) -> bytes:
    """Return the bytes that precede a field's value."""
    return write_uvarint(number << 3 | wire_type)


def sized_field(number: int, value: bytes) -> bytes:
    """Return a field with a string, bytes or a message."""
    return tag(number, 2) + write_uvarint(len(value)) + value


def number_field(number: int, value: int) -> bytes:
    """Return a field with an unsigned integer."""
    return tag(number, 0) + write_uvarint(value)
