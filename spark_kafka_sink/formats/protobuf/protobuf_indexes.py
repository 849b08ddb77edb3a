"""Message indexes: they follow the schema id, and select a message of the schema's file."""

from __future__ import annotations

from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoSchema
from spark_kafka_sink.formats.protobuf.protobuf_wire import read_unsigned_varint
from spark_kafka_sink.kafka.protocol.message_format import write_uvarint


def message_indexes(schema: str, message: str | None) -> tuple[int, ...]:
    """Return the position of a message in its file, followed by positions within outer messages.

    Raises:
        ConfigError: the schema is not a descriptor, or does not contain the message.
    """
    parsed = ProtoSchema.parse(schema)
    return parsed.main[parsed.message(message).name]


def encode_indexes(schema: str, message: str | None) -> bytes:
    """Return the message indexes in the registry's framing: a single byte for the first message.

    Raises:
        ConfigError: see `message_indexes`.
    """
    indexes = message_indexes(schema, message)
    if indexes == (0,):
        return b"\0"
    return b"".join(write_uvarint(2 * number) for number in (len(indexes), *indexes))


def read_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the message indexes at the start of `data`, and the remaining bytes."""
    count, position = read_unsigned_varint(data, 0)
    indexes: list[int] = []
    for _ in range(count >> 1):
        index, position = read_unsigned_varint(data, position)
        indexes.append(index >> 1)
    return tuple(indexes) or (0,), data[position:]
