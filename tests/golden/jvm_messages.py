"""Requests and responses read and written by Kafka's generated message classes."""

import json
from dataclasses import dataclass
from typing import Any

from tools.support.java import Jvm


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedMessage:
    """A message as Kafka parsed it.

    `fields` is its JSON (field names as in Kafka's schemas), `rest` the number of unread bytes,
    and `again` the bytes that Kafka writes for the same message.
    """

    fields: dict[str, Any]
    rest: int
    again: bytes


def parse(jvm: Jvm, name: str, version: int, data: bytes) -> ParsedMessage:
    """Read `data` as Kafka's message `name` (such as ``ProduceRequest``) at `version`.

    Raises:
        Py4JJavaError: Kafka refuses the bytes.
    """
    protocol, message = jvm.common.protocol, jvm.common.message
    accessor = protocol.ByteBufferAccessor(jvm.buffer(data))
    parsed = getattr(message, f"{name}Data")(accessor, version)
    converter = getattr(message, f"{name}DataJsonConverter")
    again = jvm.data(protocol.MessageUtil.toByteBufferAccessor(parsed, version).buffer())
    return ParsedMessage(
        fields=json.loads(converter.write(parsed, version).toString()),
        rest=accessor.remaining(),
        again=again,
    )


def write(jvm: Jvm, name: str, version: int, fields: dict[str, Any]) -> bytes:
    """Return the bytes that Kafka writes for the message with these JSON fields.

    Raises:
        Py4JJavaError: a field is missing, unknown at this version or of the wrong type.
    """
    mapper = jvm.packages.com.fasterxml.jackson.databind.ObjectMapper()
    converter = getattr(jvm.common.message, f"{name}DataJsonConverter")
    message = converter.read(mapper.readTree(json.dumps(fields)), version)
    return jvm.data(jvm.common.protocol.MessageUtil.toByteBufferAccessor(message, version).buffer())


def versions(jvm: Jvm, name: str) -> tuple[int, int]:
    """Return the lowest and highest version that this Kafka supports, including unstable ones."""
    message = getattr(jvm.common.message, f"{name}Data")
    return int(message.LOWEST_SUPPORTED_VERSION), int(message.HIGHEST_SUPPORTED_VERSION)
