"""SASL authentication of one connection, without I/O.

`Authenticator` defines the order of messages:

    step: create the first message -> SaslHandshake -> SaslAuthenticate
        -> [step: respond to the broker's message -> SaslAuthenticate]* -> complete

The work of the mechanism can be slow (reading files, fetching tokens, sending requests to a KDC,
hashing passwords), so the caller runs this work as a step, on a different thread. Brokers before
Kafka 1.0 do not implement SaslAuthenticate and are not supported. Source: KIP-43, KIP-152, KIP-368,
``SaslClientAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import AuthenticationError, ProtocolError
from spark_kafka_sink.common.text import listed, quoted
from spark_kafka_sink.config.security.security_config import Mechanism
from spark_kafka_sink.kafka.client.request import Request
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    VersionRange,
    negotiate,
)

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange

Step = Callable[[], bytes | None]
"""Function that can block; returns the next message, or None after the last message."""

_NO_SASL = (
    "Use the port of a SASL listener in kafka.bootstrap.servers, or set kafka.security.protocol to "
    "PLAINTEXT, or to SSL if the port uses TLS."
)
_TOO_OLD = "Upgrade the broker: SaslAuthenticate requires Kafka 1.0 or later."
_PASSWORD = (
    "Check kafka.sasl.username and kafka.sasl.password, or the values in "  # noqa: S105
    "kafka.sasl.jaas.config, and that the user exists on the broker for this mechanism."
)
_HINTS = {
    Mechanism.PLAIN: _PASSWORD,
    Mechanism.SCRAM_SHA_256: _PASSWORD,
    Mechanism.SCRAM_SHA_512: _PASSWORD,
    Mechanism.OAUTHBEARER: (
        "Check that the token has the issuer, audience, scope and expiry that the broker expects."
    ),
    Mechanism.AWS_MSK_IAM: (
        "Check the AWS credentials and the region, and that the policy allows "
        "kafka-cluster:Connect on this cluster."
    ),
    Mechanism.GSSAPI: (
        "Check kafka.sasl.kerberos.service.name and the principal, and that the clocks are in sync."
    ),
}

_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """The login to one broker: the mechanism, and the factory for its exchange."""

    mechanism: Mechanism
    new_exchange: Callable[[], SaslExchange]
    """Creates an exchange. Like a step, it can block."""


class Authenticator:
    """The client's side of one authentication; each instance is used once.

    Args:
        login: the mechanism, and the factory for its exchange.
        versions: the broker's version ranges by API key.
    """

    def __init__(self, login: SaslLogin, versions: Mapping[int, VersionRange]) -> None:
        self.lifetime = 0.0
        """Seconds after which the broker requires a new login (KIP-368), or 0 if none is required.
        """
        self._login = login
        self._handshake_version = _negotiated_version(ApiKey.SASL_HANDSHAKE, versions)
        self._authenticate_version = _negotiated_version(ApiKey.SASL_AUTHENTICATE, versions)
        self._step: Step | None = self._begin
        self._first_message: bytes | None = None
        """The first message, until the broker has accepted the mechanism."""
        self._exchange: SaslExchange | None = None

    def take_step(self) -> Step | None:
        """Return the next step if it was not returned before, or None. Steps can block."""
        step, self._step = self._step, None
        return step

    def resume(self, message: bytes | None) -> Request | None:
        """Continue with a step's result; return the next request, or None after the last step."""
        assert self._exchange is not None
        if message is None:
            return None
        if self._first_message is None:
            self._first_message = message
            api, version = ApiKey.SASL_HANDSHAKE, self._handshake_version
            return Request.of(api, version, {"mechanism": self._exchange.mechanism})
        return self._authenticate_request(message)

    def handle_handshake(self, response: Any) -> Request:
        """Process the response to SaslHandshake; return the first SaslAuthenticate request.

        Raises:
            AuthenticationError: the broker does not support the mechanism, or its listener does not
                use SASL.
        """
        code, ours = int(response.error_code), self._wire_name
        if code == ErrorCode.unsupported_sasl_mechanism:
            offered = listed(sorted(map(quoted, response.mechanisms)), _MAX_LISTED)
            raise AuthenticationError(
                f"the broker does not offer the SASL mechanism {ours}: it offers "
                f"{offered or 'none'}",
                kafka_error=error_name(code),
                hint="Set kafka.sasl.mechanism to a mechanism that the broker offers.",
            )
        if code == ErrorCode.illegal_sasl_state:
            raise AuthenticationError(
                "the broker's listener does not use SASL",
                kafka_error=error_name(code),
                hint=_NO_SASL,
            )
        if code:
            raise AuthenticationError(
                "the broker rejected SaslHandshake", kafka_error=error_name(code)
            )
        assert self._first_message is not None
        return self._authenticate_request(self._first_message)

    def handle_authenticate(self, response: Any) -> None:
        """Process the response to SaslAuthenticate; the next step passes it to the mechanism.

        Raises:
            AuthenticationError: the broker rejects the login; the error contains the broker's
                message.
        """
        assert self._exchange is not None
        code, reason = int(response.error_code), quoted(response.error_message or "")
        if code:
            self._exchange.reject()
            raise AuthenticationError(
                f"the broker rejected the login with SASL mechanism {self._shown_mechanism}"
                + (f": {reason}" if reason else ""),
                kafka_error=error_name(code),
                hint=_HINTS[self._login.mechanism],
            )
        lifetime = getattr(response, "session_lifetime", None)
        self.lifetime = max(0.0, lifetime.total_seconds()) if lifetime else 0.0
        self._step = partial(self._next_message, bytes(response.auth_bytes))

    @property
    def _wire_name(self) -> str:
        assert self._exchange is not None
        return self._exchange.mechanism

    @property
    def _shown_mechanism(self) -> str:
        ours, theirs = self._login.mechanism.value, self._wire_name
        return ours if ours == theirs else f"{ours} (as {theirs})"

    def _begin(self) -> bytes:
        with _naming_mechanism(self._login.mechanism):
            self._exchange = self._login.new_exchange()
            return self._exchange.initial_response()

    def _next_message(self, challenge: bytes) -> bytes | None:
        assert self._exchange is not None
        with _naming_mechanism(self._login.mechanism):
            return self._exchange.next_response(challenge)

    def _authenticate_request(self, message: bytes) -> Request:
        values = {"auth_bytes": message}
        return Request.of(ApiKey.SASL_AUTHENTICATE, self._authenticate_version, values)


@contextmanager
def _naming_mechanism(mechanism: Mechanism) -> Iterator[None]:
    """Add the mechanism to errors, because the user might have intended a different mechanism.

    Raises:
        AuthenticationError: the error raised in the block, with the mechanism's name.
    """
    try:
        yield
    except AuthenticationError as error:
        if mechanism.value in error.message:
            raise
        message = f"SASL mechanism {mechanism.value}: {error.message}"
        named_error = AuthenticationError(message, kafka_error=error.kafka_error, hint=error.hint)
        raise named_error from error.__cause__


def _negotiated_version(api: ApiKey, versions: Mapping[int, VersionRange]) -> int:
    theirs = versions.get(api)
    if theirs is None and api is ApiKey.SASL_HANDSHAKE:
        raise AuthenticationError("the broker's listener does not support SASL", hint=_NO_SASL)
    try:
        return negotiate(api, CLIENT_VERSIONS[api], theirs)
    except ProtocolError as error:
        raise AuthenticationError(
            error.message, kafka_error=error.kafka_error, hint=_TOO_OLD
        ) from error
