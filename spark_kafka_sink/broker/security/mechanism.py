"""The server side of SASL mechanisms (RFC 4422), and PLAIN (RFC 4616)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.errors import AuthenticationError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.security.credentials import Credentials


class RefusedError(AuthenticationError):
    """Authentication failed; `is_told` is False if Kafka hides the reason from the client.

    Kafka sends the messages of its SaslAuthenticationException, and hides those of SaslException,
    as they would reveal which users exist.
    """

    is_told = False


class ToldRefusedError(RefusedError):
    """Authentication failed, and the client is sent the reason."""

    is_told = True


class SaslServer(Protocol):
    """One SASL exchange; `user` and `expires_at_ms` are valid once it is complete."""

    @property
    def is_complete(self) -> bool:
        """True if the client is authenticated."""

    @property
    def user(self) -> str:
        """The name of the authenticated user."""

    @property
    def expires_at_ms(self) -> int | None:
        """When the credential expires, in milliseconds since 1970; None if it does not."""

    def evaluate(self, response: bytes) -> bytes:
        """Return the response to a client message; it may be empty.

        Raises:
            RefusedError: authentication failed, or the message is invalid.
        """


class PlainSaslServer:
    """SASL/PLAIN: one message with authorization id, user and password, separated by NUL.

    Args:
        credentials: the users.
    """

    __slots__ = ("_credentials", "is_complete", "user")

    expires_at_ms = None

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.is_complete = False
        self.user = ""

    def evaluate(self, response: bytes) -> bytes:
        """See `SaslServer`."""
        try:
            tokens = response.decode().split("\0")
        except UnicodeDecodeError:
            raise RefusedError("the message is not UTF-8") from None
        if len(tokens) != 3:
            raise ToldRefusedError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}"
            )
        authorization_id, user, password = tokens
        if not user:
            raise ToldRefusedError("Authentication failed: username not specified")
        if not password:
            raise ToldRefusedError("Authentication failed: password not specified")
        if not self._credentials.has_password(user, password):
            raise ToldRefusedError("Authentication failed: Invalid username or password")
        if authorization_id not in {"", user}:
            raise ToldRefusedError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.is_complete, self.user = True, user
        return b""
