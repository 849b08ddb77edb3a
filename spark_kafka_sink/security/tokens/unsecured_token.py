"""Tokens that the client makes and nobody signs (RFC 7515, alg none), for development alone.

Source: Java's OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.security.tokens.token import Token

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.security.model import UnsecuredTokenLogin


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
        """A new token, from now on."""
        now_ms = self.clock.wall_ms()
        expires_ms = now_ms + self.login.lifetime_seconds * 1_000
        times = {"exp": expires_ms / 1_000, "iat": now_ms / 1_000}
        claims = _encoded(times | dict(self.login.claims))
        return Token(f"{_encoded({'alg': 'none'})}.{claims}.", expires_ms, now_ms)


def _encoded(content: dict[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
