"""The server side of SASL mechanisms (RFC 4422), and PLAIN (RFC 4616)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.errors import AuthenticationError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.security.credentials import Credentials


class RefusedError(AuthenticationError):
    """The client is not who it says; `is_told` is False where Kafka keeps the reason to itself.

    Kafka tells the messages of its SaslAuthenticationException, and hides those of SaslException,
    as they would tell which users there are.
    """

    is_told = False


class ToldRefusedError(RefusedError):
    """A refusal whose reason the client gets."""

    is_told = True


class SaslServer(Protocol):
    """One exchange; `user` and `expires_at_ms` count once it is complete."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has proven who it is."""

    @property
    def user(self) -> str:
        """The name that it has proven."""

    @property
    def expires_at_ms(self) -> int | None:
        """When its credential ends, in milliseconds of the epoch; None where it does not."""

    def evaluate(self, response: bytes) -> bytes:
        """Answer the client's message; the answer may be empty.

        Raises:
            RefusedError: it is not who it says it is, or its message can't be understood.
        """


class PlainSaslServer:
    """One message: authorization id, user and password with NUL between.

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
