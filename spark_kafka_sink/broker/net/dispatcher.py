"""Decode request frames, and authenticate connections before their requests reach the handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.handlers.api_versions import unsupported_version
from spark_kafka_sink.broker.handlers.request_context import RequestContext, ServedApi
from spark_kafka_sink.broker.handlers.served_apis import handlers_of
from spark_kafka_sink.broker.net.plain_produce import try_read_produce_request
from spark_kafka_sink.broker.net.response_channel import ResponseChannel
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import messages
from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type
from spark_kafka_sink.kafka.security.acl_commands import ANONYMOUS

if TYPE_CHECKING:
    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.net.client_connection import ClientConnection
    from spark_kafka_sink.broker.net.socket_server import SocketServer
    from spark_kafka_sink.broker.security.sasl_server import SaslServerAuthenticator


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
            explain=channel.explain,
        )
        return channel, context

    def _admit_request(self, frame: memoryview, connection: ClientConnection) -> bool:
        """Return True if a request can be passed to its handler. Respond to all other requests.

        Raises:
            ProtocolError: the connection must be closed.
        """
        sasl = connection.authenticator
        if sasl is None:
            return True
        if sasl.takes_tokens:
            self._handle_token(sasl, frame, connection)
            return False
        api, version, _ = messages.read_request_start(frame)
        if sasl.admits(api, self._clock.monotonic()):
            return True
        sasl.check(api)
        if api == ApiKey.API_VERSIONS:
            if version in self._handlers[api].versions:
                sasl.sent_versions()
            return True
        self._handle_sasl(sasl, frame, connection)
        return False

    def _handle_sasl(
        self, sasl: SaslServerAuthenticator, frame: memoryview, connection: ClientConnection
    ) -> None:
        header = messages.read_request_header(frame)
        handler = self._handlers[header.api_key]
        if header.version not in handler.versions:
            raise ProtocolError(f"{handler.api.name} version {header.version} is not supported")
        kind = request_type(header.api_key, header.version)
        request = decode(kind, frame, header.body_offset)[0]
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            values = sasl.handshake(request.mechanism, header.version)
        else:
            values = sasl.authenticate(bytes(request.auth_bytes), self._clock)
        channel = ResponseChannel(
            handler, header.version, header.correlation_id, connection, self._sockets
        )
        if sasl.has_failed:
            channel.explain("", sasl.failure_reason)

            def reject() -> None:
                channel.send(values)
                channel.end()
                channel.resume()

            self._sockets.call_later(self._failure_delay, reject)
            return
        self._store_user(sasl, connection)
        channel.send(values)

    def _handle_token(
        self, sasl: SaslServerAuthenticator, frame: memoryview, connection: ClientConnection
    ) -> None:
        """Respond to a SASL message without a request header (SaslHandshake version 0)."""
        challenge = sasl.token(bytes(frame), self._clock)
        if challenge is None:

            def reject() -> None:
                connection.is_ending = True
                self._sockets.resume(connection)

            self._sockets.call_later(self._failure_delay, reject)
            return
        self._store_user(sasl, connection)
        connection.add_response([len(challenge).to_bytes(4, "big") + challenge])

    @staticmethod
    def _store_user(sasl: SaslServerAuthenticator, connection: ClientConnection) -> None:
        if sasl.is_complete and sasl.user is not None:
            connection.set_user(sasl.user)


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
