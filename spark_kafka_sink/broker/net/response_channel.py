"""The response to one request: handle the request, transform and encode the response, and send it.

Fault injection changes responses here, and intercepts requests as a `RequestInjector`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.broker.handlers.request_context import NoFields, RequestContext, ServedApi
from spark_kafka_sink.broker.net.plain_produce import try_write_produce_response
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import messages
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.net.client_connection import ClientConnection
    from spark_kafka_sink.broker.net.socket_server import SocketServer
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


@dataclass(slots=True, eq=False)
class ResponseChannel:
    """Passes a request to its handler, and the response to its connection.

    Fault injection sets three attributes. The functions in `response_transforms` modify the
    response's values. `cut` is the number of response bytes after which the connection is closed.
    If `is_lost` is True, no response is sent and the connection serves no more requests.
    """

    _handler: ServedApi
    _version: int
    _correlation_id: int
    _connection: ClientConnection
    _sockets: SocketServer
    response_transforms: list[Callable[[FieldValues], FieldValues]] = field(
        default_factory=list, init=False
    )
    cut: int | None = field(default=None, init=False)
    is_lost: bool = field(default=False, init=False)
    _is_released: bool = field(default=False, init=False)
    _reasons: dict[str, str] = field(default_factory=dict, init=False)

    def handle(self, context: RequestContext) -> None:
        """Serve the request.

        Raises:
            ProtocolError: the connection must be closed.
        """
        result = self._handler.handle_authorized(context)
        if result is NoFields.CLOSE:
            raise ProtocolError("a request without a response failed")
        if result is NoFields.NO_RESPONSE and not self._is_released:
            self._sockets.deliver(lambda: self._connection.add_response(()))
        elif not isinstance(result, NoFields):
            self.send(result)

    def reply(self, values: FieldValues) -> None:
        """Send the response of a handler that returned DELAYED."""
        self.send(values)
        self.resume()

    def explain(self, part: str, reason: str) -> None:
        """Log the error of a part of the response with this reason; see `RequestContext`."""
        self._reasons[part] = reason

    def release(self) -> None:
        """Resume the connection before a request without a response is handled."""
        self._is_released = True
        self._connection.add_response(())

    def resume(self) -> None:
        """Resume the connection outside of its turn in the event loop."""
        self._sockets.deliver(lambda: self._sockets.resume(self._connection))

    def fail(self, error: Exception) -> None:
        """Log the error of a delayed request, and close the connection."""
        self._sockets.error_log.log_failure(self._connection, error)
        self.end()

    def end(self) -> None:
        """Close the connection after all responses are sent."""
        self._sockets.deliver(lambda: setattr(self._connection, "is_ending", True))

    def send(self, values: FieldValues) -> None:
        """Queue the response."""
        if self._connection.is_closed or self.is_lost:
            return
        log = self._sockets.error_log
        log.log_errors(self._handler.api, self._connection.peer, values, self._reasons)
        for transform in self.response_transforms:
            values = transform(values)
        parts = self._response_parts(values)
        if self.cut is not None:
            parts = [memoryview(b"".join(parts))[: self.cut]]
            self.end()
        self._sockets.deliver(lambda: self._connection.add_response(parts))

    def _response_parts(self, values: FieldValues) -> list[bytes | memoryview]:
        kind = response_type(self._handler.api, self._version)
        is_produce = self._handler.api is ApiKey.PRODUCE
        if is_produce and (plain := try_write_produce_response(self._version, values)) is not None:
            return [messages.framed(messages.response_header(kind, self._correlation_id), plain)]
        return messages.response_buffers(messages.build(kind, values), self._correlation_id)


class RequestInjector(Protocol):
    """Intercepts requests before they reach their handlers. Implemented by fault injection."""

    @property
    def is_active(self) -> bool:
        """True if the injector might change requests or responses."""

    def serve(self, channel: ResponseChannel, context: RequestContext) -> None:
        """Handle a request, either with `ResponseChannel.handle` or in a different way.

        Raises:
            ProtocolError: the connection must be closed.
        """
