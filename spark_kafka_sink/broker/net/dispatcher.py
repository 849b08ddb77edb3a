"""Decode request frames, run the requests, and deliver the responses.

Connections are authenticated before their requests reach the handlers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from spark_kafka_sink.broker import authorization
from spark_kafka_sink.broker.handlers.api_versions import handlers_of, unsupported_version
from spark_kafka_sink.broker.handlers.request_context import REASON, NoFields, RequestContext
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import messages
from spark_kafka_sink.kafka.protocol.codec import decode
from spark_kafka_sink.kafka.protocol.produce import (
    try_read_produce_request,
    try_write_produce_response,
)
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type, response_type
from spark_kafka_sink.kafka.security.acl_commands import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.handlers.request_context import ServedApi
    from spark_kafka_sink.broker.net.client_connection import ClientConnection
    from spark_kafka_sink.broker.net.socket_server import SocketServer
    from spark_kafka_sink.broker.security.sasl_server import SaslServerAuthenticator
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

    def handle(self, context: RequestContext) -> None:
        """Serve the request.

        Raises:
            ProtocolError: the connection must be closed.
        """
        if context.cluster.denials.is_active:
            result = authorization.handle(self._handler, context)
        else:
            result = self._handler.handle(context)
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
        self._sockets.error_log.log_errors(self._handler.api, self._connection, values)
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


class Dispatcher:
    """Decodes requests. Authenticates the connections that use SASL.

    Args:
        cluster: the state that handlers read and change.
        sockets: sends responses.
    """

    def __init__(self, cluster: Cluster, sockets: SocketServer) -> None:
        self._cluster = cluster
        self._handlers = handlers_of(cluster.config.release)
        self._sockets = sockets
        self._clock = cluster.clock
        self._failure_delay = cluster.config.failed_authentication_delay_ms / 1000

    def decode(
        self, frame: memoryview, connection: ClientConnection
    ) -> tuple[ResponseChannel, RequestContext] | None:
        """Decode a request. Return None if no handler is needed.

        This method responds to ApiVersions requests of an unknown version, and to SASL requests.

        Raises:
            ProtocolError: the request is invalid or not supported; the connection must be closed
                (as in Kafka).
        """
        if not self._admit_request(frame, connection):
            return None
        api, version, correlation_id = messages.read_request_start(frame)
        handler = self._handlers.get(api)
        if handler is not None and version not in handler.versions and api == ApiKey.API_VERSIONS:
            oldest = ResponseChannel(handler, 0, correlation_id, connection, self._sockets)
            oldest.send(unsupported_version(handler.versions))
            return None
        if handler is None or version not in handler.versions:
            raise ProtocolError(_unsupported_message(api, version, handler))
        header = messages.read_request_header(frame)
        request = _read_body(api, version, frame, header.body_offset)
        channel = ResponseChannel(handler, version, correlation_id, connection, self._sockets)
        context = RequestContext(
            cluster=self._cluster,
            api=handler.api,
            node=connection.node,
            version=version,
            request=request,
            client_id=header.client_id or "",
            client_host=connection.peer,
            user=connection.user or ANONYMOUS,
            reply=channel.reply,
            is_closed=lambda: connection.is_closed,
        )
        return channel, context

    def _admit_request(self, frame: memoryview, connection: ClientConnection) -> bool:
        """Return True if a request can be passed to its handler. Respond to all other requests.

        Raises:
            ProtocolError: the connection must be closed.
        """
        authenticator = connection.authenticator
        if authenticator is None:
            return True
        if authenticator.takes_tokens:
            self._handle_token(authenticator, frame, connection)
            return False
        api, version, _ = messages.read_request_start(frame)
        if authenticator.admits(api, self._clock.monotonic()):
            return True
        authenticator.check(api)
        if api == ApiKey.API_VERSIONS:
            if version in self._handlers[api].versions:
                authenticator.sent_versions()
            return True
        self._handle_sasl(authenticator, frame, connection)
        return False

    def _handle_sasl(
        self,
        authenticator: SaslServerAuthenticator,
        frame: memoryview,
        connection: ClientConnection,
    ) -> None:
        header = messages.read_request_header(frame)
        handler = self._handlers[header.api_key]
        if header.version not in handler.versions:
            raise ProtocolError(f"{handler.api.name} version {header.version} is not supported")
        kind = request_type(header.api_key, header.version)
        request = decode(kind, frame, header.body_offset)[0]
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            values = authenticator.handshake(request.mechanism, header.version)
        else:
            values = authenticator.authenticate(bytes(request.auth_bytes), self._clock)
        channel = ResponseChannel(
            handler, header.version, header.correlation_id, connection, self._sockets
        )
        if authenticator.has_failed:
            failed = {**values, REASON: authenticator.failure_reason}

            def reject() -> None:
                channel.send(failed)
                channel.end()
                channel.resume()

            self._sockets.call_later(self._failure_delay, reject)
            return
        self._store_user(authenticator, connection)
        channel.send(values)

    def _handle_token(
        self,
        authenticator: SaslServerAuthenticator,
        frame: memoryview,
        connection: ClientConnection,
    ) -> None:
        """Respond to a SASL message without a request header (SaslHandshake version 0)."""
        challenge = authenticator.token(bytes(frame), self._clock)
        if challenge is None:

            def reject() -> None:
                connection.is_ending = True
                self._sockets.resume(connection)

            self._sockets.call_later(self._failure_delay, reject)
            return
        self._store_user(authenticator, connection)
        connection.add_response([len(challenge).to_bytes(4, "big") + challenge])

    @staticmethod
    def _store_user(authenticator: SaslServerAuthenticator, connection: ClientConnection) -> None:
        if authenticator.is_complete and authenticator.user is not None:
            connection.set_user(authenticator.user)


def _read_body(api: int, version: int, frame: memoryview, offset: int) -> Any:
    plain = try_read_produce_request(version, frame, offset) if api == ApiKey.PRODUCE else None
    return decode(request_type(api, version), frame, offset)[0] if plain is None else plain


def _unsupported_message(api: int, version: int, handler: ServedApi | None) -> str:
    if handler is None:
        return f"API {api} is not supported"
    text = f"{handler.api.name} version {version} is not supported, only {handler.versions}"
    if version > handler.versions.highest:
        return f"{text}: the client does not request ApiVersions, or ignores the response"
    return f"{text}: the client is too old for Kafka 4, or is configured for an old version"
