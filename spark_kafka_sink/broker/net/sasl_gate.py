"""SASL authentication of connections, ahead of the request handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.handlers.request_context import REASON
from spark_kafka_sink.broker.net.connection import ResponseChannel
from spark_kafka_sink.broker.security.authenticator import Moment
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import read_request_header, read_request_start
from spark_kafka_sink.protocol.versions import ApiKey, request_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.broker.handlers.request_context import Handler
    from spark_kafka_sink.broker.net.connection import Connection, Network
    from spark_kafka_sink.broker.security.authenticator import SaslServerAuthenticator
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.protocol.messages import Values


class SaslGate:
    """Authenticates connections that have an authenticator.

    Args:
        handlers: handlers of the supported APIs, by API key.
        network: receives responses.
        clock: the brokers' clock.
        failure_delay: seconds before a failed authentication is answered, against password guessing
            (connection.failed.authentication.delay.ms).
    """

    __slots__ = ("_clock", "_failure_delay", "_handlers", "_network")

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        network: Network,
        clock: Clock,
        failure_delay: float,
    ) -> None:
        self._handlers = handlers
        self._network = network
        self._clock = clock
        self._failure_delay = failure_delay

    def admits(self, frame: memoryview, connection: Connection) -> bool:
        """Return True if a request may be passed to its handler; answer all others here.

        Raises:
            ProtocolError: the connection must be closed.
        """
        authenticator = connection.authenticator
        if authenticator is None:
            return True
        if authenticator.takes_tokens:
            self._take_token(authenticator, frame, connection)
            return False
        api, version, _ = read_request_start(frame)
        if authenticator.admits(api, self._clock.monotonic()):
            return True
        authenticator.check(api)
        if api == ApiKey.API_VERSIONS:
            if version in self._handlers[api].versions:
                authenticator.told_versions()
            return True
        self._answer(authenticator, frame, connection)
        return False

    def _answer(
        self, authenticator: SaslServerAuthenticator, frame: memoryview, connection: Connection
    ) -> None:
        header = read_request_header(frame)
        handler = self._handlers[header.api_key]
        if header.version not in handler.versions:
            raise ProtocolError(f"version {header.version} of {handler.api.name} is not served")
        kind = request_type(header.api_key, header.version)
        request = decode(kind, frame, header.body_offset)[0]
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            values = authenticator.handshake(request.mechanism, header.version)
        else:
            values = authenticator.authenticate(bytes(request.auth_bytes), self._moment())
        channel = ResponseChannel(
            handler, header.version, header.correlation_id, connection, self._network
        )
        self._send(authenticator, connection, channel, values)

    def _send(
        self,
        authenticator: SaslServerAuthenticator,
        connection: Connection,
        channel: ResponseChannel,
        values: Values,
    ) -> None:
        if authenticator.has_failed:
            told = {**values, REASON: authenticator.refusal}

            def refuse() -> None:
                channel.send(told)
                channel.end()
                channel.went_on()

            self._network.call_later(self._failure_delay, refuse)
            return
        self._note_user(authenticator, connection)
        channel.send(values)

    def _take_token(
        self, authenticator: SaslServerAuthenticator, frame: memoryview, connection: Connection
    ) -> None:
        """Answer a SASL message without a request header (SaslHandshake version 0)."""
        challenge = authenticator.token(bytes(frame), self._moment())
        if challenge is None:

            def refuse() -> None:
                connection.ending = True
                self._network.answered(connection)

            self._network.call_later(self._failure_delay, refuse)
            return
        self._note_user(authenticator, connection)
        connection.answered([len(challenge).to_bytes(4, "big") + challenge])

    @staticmethod
    def _note_user(authenticator: SaslServerAuthenticator, connection: Connection) -> None:
        if authenticator.is_complete and authenticator.user is not None:
            connection.authenticated(authenticator.user)

    def _moment(self) -> Moment:
        return Moment(monotonic=self._clock.monotonic(), wall_ms=self._clock.wall_ms())
