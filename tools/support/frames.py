"""Complete requests and responses, as sent on a socket: size, header and body."""

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.kafka.protocol.message_format import encode
from spark_kafka_sink.kafka.protocol.messages import framed, request_header, response_buffers

if TYPE_CHECKING:
    from kio.static.protocol import ResponsePayload


def request_frame(payload: Any, correlation_id: int, client_id: str | None) -> bytes:
    """Return the bytes of a request."""
    return framed(request_header(type(payload), correlation_id, client_id), encode(payload))


def response_frame(payload: "ResponsePayload", correlation_id: int) -> bytes:
    """Return the bytes of a response."""
    return b"".join(response_buffers(payload, correlation_id))
