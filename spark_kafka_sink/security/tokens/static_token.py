"""Static tokens from an option or a file, and unsecured tokens for development.

Unsecured tokens are created by the client and not signed (RFC 7515, alg none).

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
from spark_kafka_sink.security.tokens.token import Token, token_of

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import TokenLogin, UnsecuredTokenLogin


MAX_CLOCK_SKEW_MS = 60_000
"""Clock difference in milliseconds up to which an expired token is still sent: it may be valid by
the broker's clock."""


@dataclass(frozen=True, slots=True)
class StaticTokenSource:
    """See `TokenSource`; the token is read at each login, so a file can be replaced at any time."""

    login: TokenLogin
    clock: Clock = field(default_factory=SystemClock, compare=False)

    @property
    def shared(self) -> None:
        """See `TokenSource`."""
        return

    def fetch(self) -> Token:
        """Return the current token.

        Raises:
            AuthenticationError: the text is not a token, or the token has expired.
            ConfigError: the token cannot be found on this host.
        """
        secret = self.login.token
        place = f"option {secret.option}"
        token = token_of(secret.reveal().strip(), place)
        if token.expires_ms is not None and token.expired(self.clock.wall_ms() - MAX_CLOCK_SKEW_MS):
            ended = datetime.fromtimestamp(token.expires_ms / 1_000, UTC)
            raise AuthenticationError(
                f"the token from {place} expired at {ended:%Y-%m-%d %H:%M:%S} UTC",
                hint="Use file:PATH for a file that is renewed: it is read again at each login.",
            )
        return token


@dataclass(frozen=True, slots=True)
class UnsecuredTokenSource:
    """See `TokenSource`."""

    login: UnsecuredTokenLogin
    clock: Clock = field(default_factory=SystemClock, compare=False)

    @property
    def shared(self) -> None:
        """See `TokenSource`."""
        return

    def fetch(self) -> Token:
        """Return a new token, issued now."""
        now_ms = self.clock.wall_ms()
        expires_ms = now_ms + self.login.lifetime_seconds * 1_000
        times = {"exp": expires_ms / 1_000, "iat": now_ms / 1_000}
        claims = _encoded(times | dict(self.login.claims))
        return Token(f"{_encoded({'alg': 'none'})}.{claims}.", expires_ms, now_ms)


def _encoded(content: dict[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
