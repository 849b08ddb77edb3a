"""The body of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.protocol.codec import encode
from spark_kafka_sink.protocol.message_builder import build
from spark_kafka_sink.protocol.versions import request_type

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from spark_kafka_sink.protocol.message_builder import Values
    from spark_kafka_sink.protocol.versions import ApiKey


def write(api: ApiKey, version: int, values: Values) -> list[Buffer]:
    """A request's body out of a tree of plain values."""
    return [encode(build(request_type(api, version), values))]
