"""Requests before they are sent, in flight, and completed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spark_kafka_sink.kafka.protocol.messages import encode_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.protocol.messages import FieldValues
    from spark_kafka_sink.kafka.protocol.versions import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request ready to be sent, with its body as buffers."""

    api: ApiKey
    version: int
    body: list[Buffer] = field(repr=False)
    context: Any = None
    """An object of the sender, which is returned with the completion."""
    reader: Callable[[memoryview], Any] | None = field(default=None, repr=False)
    """Parses the frame of the response; None for `message_format`, which returns kio's message."""
    expects_response: bool = True
    """False only for acks=0."""

    @classmethod
    def of(cls, api: ApiKey, version: int, values: FieldValues, context: Any = None) -> Self:
        """Encode a request from plain values; see `encode_request`."""
        body = encode_request(api, version, values)
        return cls(api=api, version=version, body=body, context=context)


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A request in flight. Times are in seconds of the monotonic clock."""

    correlation_id: int
    request: Request
    sent_at: float
    ends_at: int = 0
    """Offset of the request's end in the connection's byte stream."""
    written_at: float = 0.0
    """0 until the socket has accepted the whole request."""


class Loss(Enum):
    """Why the response to a request was lost, as far as callers distinguish it."""

    CLOSED = "the broker closed the connection"
    UNREADABLE = "the response could not be read"
    OTHER = "another reason, such as a timeout"


class Completion(NamedTuple):
    """A completed request.

    A request that was not completely written has no effect: a broker processes a frame only after
    it has received the whole frame (``NetworkReceive.complete``), and drops a frame that a
    disconnect truncates. The missing bytes are never sent, because the connection is closed.
    """

    node: Node
    sent_request: InFlightRequest
    latency: float
    """Seconds from sending to the response."""
    response: Any | None = None
    """None after a failure, and for a written request that expects no response."""
    failure: str | None = None
    """Why there is no response; None if there is one, or if none is expected."""
    is_written: bool = True
    """True if the socket has accepted the whole request."""
    is_oldest: bool = True
    """True unless the connection failed while an older request was in flight: brokers process the
    requests of a connection in order.
    """
    loss: Loss | None = None
    """The kind of the failure."""

    @property
    def request(self) -> Request:
        """The request that has completed."""
        return self.sent_request.request

    @property
    def correlation_id(self) -> int:
        """The request's correlation id."""
        return self.sent_request.correlation_id

    @property
    def throttle_ms(self) -> int:
        """Milliseconds for which the broker throttles this client, according to the response."""
        pause = getattr(self.response, "throttle_time", None)
        if isinstance(pause, timedelta):
            return round(pause / timedelta(milliseconds=1))
        return int(getattr(self.response, "throttle_ms", 0))  # Produce responses
