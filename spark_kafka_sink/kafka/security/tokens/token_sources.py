"""Tokens that need no request: from an option or a file, or unsecured.

The client creates unsecured tokens, for development, without a signature (RFC 7515, alg none).
Source: Java's OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.kafka.security.tokens.token import (
    MAX_CLOCK_SKEW_MS,
    Token,
    TokenSource,
    parse_token,
)

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_config import TokenLogin, UnsecuredTokenLogin


@dataclass(frozen=True, slots=True)
class StaticTokenSource(TokenSource):
    """See `TokenSource`.

    The token is read at each login, so its file can be replaced at any time.
    """

    login: TokenLogin
    clock: Clock = field(default_factory=SystemClock, compare=False)

    def fetch(self) -> Token:
        """Return the current token.

        Raises:
            AuthenticationError: the text is not a token, or the token has expired.
            ConfigError: the token cannot be found on this host.
        """
        secret = self.login.token
        origin = f"option {secret.option}"
        token = parse_token(secret.reveal().strip(), origin)
        if token.expires_ms is not None and token.is_expired(
            self.clock.wall_ms() - MAX_CLOCK_SKEW_MS
        ):
            ended = datetime.fromtimestamp(token.expires_ms / 1_000, UTC)
            raise AuthenticationError(
                f"the token from {origin} expired at {ended:%Y-%m-%d %H:%M:%S} UTC",
                hint="Use file:PATH for a file that is renewed. It is read again at each login.",
            )
        return token


@dataclass(frozen=True, slots=True)
class UnsecuredTokenSource(TokenSource):
    """See `TokenSource`."""

    login: UnsecuredTokenLogin
    clock: Clock = field(default_factory=SystemClock, compare=False)

    def fetch(self) -> Token:
        """Return a new token that is issued now."""
        now_ms = self.clock.wall_ms()
        expires_ms = now_ms + self.login.lifetime_seconds * 1_000
        times = {"exp": expires_ms / 1_000, "iat": now_ms / 1_000}
        claims = _base64_json(times | dict(self.login.claims))
        return Token(f"{_base64_json({'alg': 'none'})}.{claims}.", expires_ms, now_ms)


def _base64_json(content: dict[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
