"""OAUTHBEARER (RFC 7628, KIP-255): a token that somebody else gave says who the client is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.security.sasl.oauthbearer_messages import SEPARATOR, client_first, told_by
from spark_kafka_sink.security.sasl.server_message import decoded
from spark_kafka_sink.security.tokens.cache import PROCESS_WIDE, TokenCache

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import RefreshPolicy
    from spark_kafka_sink.security.tokens.token import Token
    from spark_kafka_sink.security.tokens.token_source import TokenSource


class OAuthBearerExchange:
    """See `SaslExchange`.

    Args:
        source: where the token comes from.
        policy: when it is renewed.
        extensions: of the login (KIP-342).
        cache: shares tokens among connections.
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
        self._told: str | None = None
        """The broker's error, once it has sent one."""

    @property
    def mechanism(self) -> str:
        """See `SaslExchange`."""
        return "OAUTHBEARER"

    def first(self) -> bytes:
        """The token, and the extensions.

        Raises:
            AuthenticationError: there is no token.
            ConfigError: a secret can't be found on this host, or an extension can't be sent.
        """
        self._token = self._cache.token(self._source, self._policy)
        return client_first(self._token, self._extensions)

    def answer(self, challenge: bytes) -> bytes | None:
        """None to the empty message of a broker that is content; an error is acknowledged.

        The token that met with an error is given to no other connection.

        Raises:
            AuthenticationError: the broker goes on after its error, or its message is unreadable.
        """
        if self._told is not None:
            raise AuthenticationError(f"the broker refuses the token: {self._told}")
        if not challenge:
            return None
        if self._token is not None:
            self._cache.forget(self._token)
        self._told = told_by(decoded(challenge, self.mechanism))
        return SEPARATOR
