"""Messages and exchange of OAUTHBEARER (RFC 7628, KIP-255), also used for AWS_MSK_IAM."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.text import quoted
from spark_kafka_sink.security.sasl.exchange import decoded
from spark_kafka_sink.security.tokens.token import PROCESS_WIDE, TokenCache, object_in, text_field

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import RefreshPolicy
    from spark_kafka_sink.security.tokens.token import Token, TokenSource


SEPARATOR = b"\x01"
"""Separator of key-value pairs. A single separator is the client's response to an error."""
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")


def client_first(token: Token, extensions: tuple[tuple[str, str], ...]) -> bytes:
    """Return the client's only message.

    Raises:
        ConfigError: the name or the value of an extension cannot be sent.
    """
    pairs = [f"auth=Bearer {token.value}", *(_extension(*each) for each in extensions)]
    return b"n,," + SEPARATOR + b"".join(pair.encode() + SEPARATOR for pair in pairs) + SEPARATOR


def _extension(name: str, value: str) -> str:
    if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
        raise ConfigError(
            f"the SASL extension {quoted(name)!r} is invalid",
            hint="A name must consist of letters only, and must not be auth (KIP-342).",
        )
    if not _EXTENSION_VALUE.fullmatch(value):
        raise ConfigError(
            f"the SASL extension {name} has an invalid value",
            hint="A value must be ASCII without control characters (KIP-342).",
        )
    return f"{name}={value}"


def describe_error(error: str) -> str:
    """Return the text of a broker's error, with its status and the required scope."""
    found = object_in(error)
    if found is None:
        return quoted(error)
    status, scope = text_field(found, "status"), text_field(found, "scope")
    if status is None:
        return quoted(error)
    return quoted(status) + (f", it requires the scope {quoted(scope)}" if scope else "")


class OAuthBearerExchange:
    """See `SaslExchange`.

    Args:
        source: source of the token.
        policy: defines when the token is refreshed.
        extensions: SASL extensions of the login (KIP-342).
        cache: the token cache that connections share.
    """

    def __init__(
        self,
        source: TokenSource,
        policy: RefreshPolicy,
        extensions: tuple[tuple[str, str], ...] = (),
        *,
        cache: TokenCache = PROCESS_WIDE,
    ) -> None:
        self._source = source
        self._policy = policy
        self._extensions = extensions
        self._cache = cache
        self._token: Token | None = None
        self._error: str | None = None
        """The error that the broker sent, or None."""

    @property
    def mechanism(self) -> str:
        """See `SaslExchange`."""
        return "OAUTHBEARER"

    def first(self) -> bytes:
        """Return the message with the token and the extensions.

        Raises:
            AuthenticationError: no token can be obtained.
            ConfigError: a secret cannot be found on this host, or an extension cannot be sent.
        """
        self._token = self._cache.token(self._source, self._policy)
        return client_first(self._token, self._extensions)

    def answer(self, challenge: bytes) -> bytes | None:
        """Return None for the empty message that indicates success, or the response to an error.

        A rejected token is not used for other connections.

        Raises:
            AuthenticationError: the broker has rejected the token, or its message is invalid.
        """
        if self._error is not None:
            raise AuthenticationError(f"the broker rejected the token: {self._error}")
        if not challenge:
            return None
        if self._token is not None:
            self._cache.forget(self._token)
        self._error = describe_error(decoded(challenge, self.mechanism))
        return SEPARATOR
