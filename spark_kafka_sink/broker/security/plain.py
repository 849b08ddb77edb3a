"""PLAIN (RFC 4616), with the messages of Kafka's PlainSaslServer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.security.mechanism import RefusedError, ToldRefusedError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.security.credentials import Credentials


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
