"""Tokens that somebody else provides, in an option or in a file (librdkafka, KIP-768's file:)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.security.tokens.token import Token, token_of

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.security.model import TokenLogin

CLOCKS_DIFFER_MS = 60_000
"""A token may have ended by this host's clock and not yet by the broker's."""


@dataclass(frozen=True, slots=True)
class StaticTokenSource:
    """See `TokenSource`: read anew each time, so that a file may be replaced while a job runs."""

    login: TokenLogin
    clock: Clock = field(default_factory=SystemClock, compare=False)

    @property
    def shared(self) -> None:
        """See `TokenSource`."""
        return

    def fetch(self) -> Token:
        """The token as it is now.

        Raises:
            AuthenticationError: it is no token, or it has expired.
            ConfigError: it can't be found on this host.
        """
        secret = self.login.token
        place = f"option {secret.option}"
        token = token_of(secret.reveal().strip(), place)
        if token.expires_ms is not None and token.expired(self.clock.wall_ms() - CLOCKS_DIFFER_MS):
            ended = datetime.fromtimestamp(token.expires_ms / 1_000, UTC)
            raise AuthenticationError(
                f"the token from {place} expired at {ended:%Y-%m-%d %H:%M:%S} UTC",
                hint="Give a file that is renewed by others as file:PATH: it is read anew at each "
                "login.",
            )
        return token
