"""Authentication of a connection: the states of Kafka's SaslServerAuthenticator, without I/O.

`SaslServer` is the interface of the server side of SASL mechanisms (RFC 4422).

The client can first send ApiVersions. It then sends SaslHandshake and SaslAuthenticate requests.
After SaslHandshake version 0, it sends tokens without a request header instead (KIP-43, KIP-152).
Before its session expires, the client must authenticate again on the same connection (KIP-368).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import AuthenticationError, ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.common.clock import Clock

MAX_RECEIVE_BYTES = 524_288
"""Maximum frame size before authentication in bytes (Kafka's sasl.server.max.receive.size)."""
_RAW_TOKENS_VERSION = 0
"""Version of SaslHandshake after which clients do not wrap tokens in SaslAuthenticate requests."""
_MIN_REAUTH_S = 1.0
"""Kafka's KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS, in seconds."""
_MAX_MS = timedelta.max // timedelta(milliseconds=1)
"""Maximum session lifetime that a response can contain, in milliseconds."""


class SaslServerError(AuthenticationError):
    """Authentication failed, and the client does not receive the reason (Kafka's SaslException).

    The reason could reveal which users exist.
    """


class SaslAuthenticationError(SaslServerError):
    """Authentication failed, and the client receives the reason (like Kafka's class)."""


class SaslServer(ABC):
    """A SASL exchange. `user` and `expires_at_ms` are valid after the exchange is complete."""

    is_complete = False
    """True if the client is authenticated."""
    user = ""
    """The name of the authenticated user."""
    expires_at_ms: int | None = None
    """Expiry time of the credential in milliseconds since 1970, or None if unlimited."""

    @abstractmethod
    def evaluate(self, response: bytes) -> bytes:
        """Return the response to a client message, which can be empty.

        Raises:
            SaslServerError: authentication failed, or the message is invalid.
        """


class _Stage(Enum):
    """The stages of an authentication."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    FAILED = auto()


_ALLOWED: Mapping[_Stage, frozenset[int]] = {
    _Stage.VERSIONS_OR_HANDSHAKE: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    _Stage.HANDSHAKE: frozenset({ApiKey.SASL_HANDSHAKE}),
    _Stage.AUTHENTICATE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    _Stage.FAILED: frozenset(),
}
"""The requests allowed in each stage. Any other request closes the connection."""


@dataclass(frozen=True, slots=True)
class _Session:
    """The result of an authentication."""

    mechanism: str
    user: str
    expires_at: float | None
    """In monotonic seconds."""


class SaslServerAuthenticator:
    """Performs the authentication and the re-authentications of a connection.

    Args:
        makers: functions that create the server side of exchanges, by enabled mechanism.
        max_reauth_ms: connections.max.reauth.ms, or 0 for sessions that do not expire.
    """

    def __init__(
        self, makers: Mapping[str, Callable[[], SaslServer]], max_reauth_ms: int = 0
    ) -> None:
        self._makers = makers
        self._max_reauth_ms = max_reauth_ms
        self._stage = _Stage.VERSIONS_OR_HANDSHAKE
        self._mechanism = ""
        self._exchange: SaslServer | None = None
        self._session: _Session | None = None
        self._reauthenticated_at: float | None = None
        self._lifetime_ms: int | None = None
        self.failure_reason = ""
        """Reason for a failed authentication. The client might not have received the reason."""
        self.takes_tokens = False
        """True if the next frame is a token without a request header (SaslHandshake version 0)."""

    @property
    def is_complete(self) -> bool:
        """True if the client is authenticated and not re-authenticating."""
        return self._stage is _Stage.COMPLETE

    @property
    def has_failed(self) -> bool:
        """True if the connection must be closed after the last response."""
        return self._stage is _Stage.FAILED

    @property
    def user(self) -> str | None:
        """The authenticated user, or None before authentication."""
        return None if self._session is None else self._session.user

    def admits(self, api: int, now: float) -> bool:
        """Return True if a request can be passed to its handler. Other requests require `check`.

        Raises:
            ProtocolError: the session has expired.
        """
        if self._stage is not _Stage.COMPLETE:
            return False
        expires_at = self._session.expires_at if self._session is not None else None
        if expires_at is None:
            return True
        if api == ApiKey.SASL_HANDSHAKE and self._begin_reauthentication(now):
            return False
        if now > expires_at:
            raise ProtocolError("its session expired without re-authentication")
        return True

    def check(self, api: int) -> None:
        """Check whether a request is allowed in the current stage, before its body is decoded.

        Raises:
            ProtocolError: the request is not allowed, and the connection must be closed.
        """
        if api in _ALLOWED[self._stage]:
            return
        name = next((known.name for known in ApiKey if known == api), f"API {api}")
        during = "authentication" if self._stage is _Stage.AUTHENTICATE else "handshake"
        raise ProtocolError(f"Unexpected Kafka request of type {name} during SASL {during}")

    def sent_versions(self) -> None:
        """Register that the client has sent ApiVersions, which is allowed only once."""
        self._stage = _Stage.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> dict[str, Any]:
        """Return the response to SaslHandshake."""
        enabled = tuple(self._makers)
        if mechanism not in enabled:
            self._stage = _Stage.FAILED
            return {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": enabled}
        self._mechanism = mechanism
        self._exchange = self._makers[mechanism]()
        self._stage = _Stage.AUTHENTICATE
        self.takes_tokens = version == _RAW_TOKENS_VERSION
        return {"error_code": ErrorCode.none, "mechanisms": enabled}

    def authenticate(self, message: bytes, clock: Clock) -> dict[str, Any]:
        """Return the response to SaslAuthenticate."""
        try:
            challenge = self._evaluate_message(message, clock)
        except SaslServerError as error:
            self._stage = _Stage.FAILED
            self.failure_reason = error.message
            is_public = isinstance(error, SaslAuthenticationError)
            return {
                "error_code": ErrorCode.sasl_authentication_failed,
                "error_message": error.message if is_public else self._hidden_reason(),
                "auth_bytes": b"",
            }
        lifetime = self._lifetime_ms if self._stage is _Stage.COMPLETE else 0
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "auth_bytes": challenge,
            "session_lifetime": timedelta(milliseconds=lifetime or 0),
        }

    def token(self, message: bytes, clock: Clock) -> bytes | None:
        """Return the response to a token without a request header, or None on failure.

        The client does not receive the reason of a failure.
        """
        try:
            return self._evaluate_message(message, clock)
        except SaslServerError as error:
            self._stage = _Stage.FAILED
            self.failure_reason = error.message
            return None

    def _begin_reauthentication(self, now: float) -> bool:
        last = self._reauthenticated_at
        if last is not None and now - last < _MIN_REAUTH_S:
            return False
        self._reauthenticated_at = now
        self._stage = _Stage.HANDSHAKE
        self.takes_tokens = False
        return True

    def _evaluate_message(self, message: bytes, clock: Clock) -> bytes:
        exchange, before = self._exchange, self._session
        if exchange is None:
            raise ProtocolError("SaslAuthenticate without SaslHandshake")
        if before is not None and before.mechanism != self._mechanism:
            raise ProtocolError(
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{before.mechanism}'"
            )
        challenge = exchange.evaluate(message)
        if exchange.is_complete:
            self._complete_exchange(exchange, clock)
        return challenge

    def _complete_exchange(self, exchange: SaslServer, clock: Clock) -> None:
        before = self._session
        if before is not None and before.user != exchange.user:
            raise SaslAuthenticationError(
                "Cannot change principals during re-authentication from "
                f"User.{before.user}: User.{exchange.user}"
            )
        lifetime = self._lifetime_ms = self._session_lifetime(exchange, clock)
        expires_at = None if lifetime is None else clock.monotonic() + lifetime / 1000
        self._session = _Session(self._mechanism, exchange.user, expires_at)
        self._stage = _Stage.COMPLETE
        self.takes_tokens = False
        self._exchange = None

    def _session_lifetime(self, exchange: SaslServer, clock: Clock) -> int | None:
        """Return the session lifetime in milliseconds, or None if it is unlimited.

        The lifetime is the minimum of the broker's limit and the credential's remaining lifetime.
        """
        bounds = [self._max_reauth_ms] if self._max_reauth_ms else []
        if exchange.expires_at_ms is not None:
            bounds.append(exchange.expires_at_ms - clock.wall_ms())
        return max(0, min(*bounds, _MAX_MS)) if bounds else None

    def _hidden_reason(self) -> str:
        during = "authentication" if self._session is None else "re-authentication"
        return (
            f"Authentication failed during {during} due to invalid credentials with SASL "
            f"mechanism {self._mechanism}"
        )
