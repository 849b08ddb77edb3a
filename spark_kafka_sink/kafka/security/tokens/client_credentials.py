"""Tokens of an OAuth 2.0 issuer (client credentials grant), with retries (KIP-768)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.kafka.security.credentials_fingerprint import (
    CredentialsFingerprint,
    credentials_fingerprint,
)
from spark_kafka_sink.kafka.security.tokens.token import Token, TokenSource
from spark_kafka_sink.kafka.security.tokens.token_endpoint import FailedRequest, TokenEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin


def next_wait_ms(
    attempts: int, elapsed_ms: float, backoff_ms: int, backoff_max_ms: int
) -> float | None:
    """Return the time to wait before the next attempt.

    Args:
        attempts: number of attempts so far, at least one.
        elapsed_ms: milliseconds since the first attempt started.
        backoff_ms: sasl.login.retry.backoff.ms, which doubles with each attempt.
        backoff_max_ms: sasl.login.retry.backoff.max.ms, the limit for all attempts, as in Java.

    Returns:
        Milliseconds to wait, or None if the request must not be retried.
    """
    wait = min(backoff_ms * 2.0 ** min(attempts - 1, 60), backoff_max_ms - elapsed_ms)
    return wait if wait > 0 else None


@dataclass(frozen=True, slots=True)
class ClientCredentialsSource(TokenSource):
    """See `TokenSource`."""

    login: ClientCredentialsLogin
    """URL and credentials."""
    clock: Clock = field(default_factory=SystemClock, compare=False)
    """Clock for expiry times and retries."""
    sleep: Callable[[float], None] = field(default=time.sleep, compare=False)
    """Waits for the given number of seconds."""

    @property
    def cache_key(self) -> tuple[ClientCredentialsLogin, CredentialsFingerprint]:
        """See `TokenSource`.

        The key includes a stamp, because equal settings can refer to a changed secret.
        """
        return self.login, credentials_fingerprint(self.login)

    def fetch(self) -> Token:
        """Request a token, with retries.

        Raises:
            AuthenticationError: a failure is not retriable, or all attempts failed. If all attempts
                failed, the error of the first attempt is raised, as in Java.
            ConfigError: id, secret or trusted certificates cannot be read on this host.
        """
        endpoint = TokenEndpoint(self.login)
        began = self.clock.monotonic()
        attempts = 0
        first = None
        while True:
            response = endpoint.request(self.clock.wall_ms())
            if not isinstance(response, FailedRequest):
                return response
            attempts, first = attempts + 1, first or response.error
            if not response.retriable:
                raise response.error
            elapsed_ms = (self.clock.monotonic() - began) * 1_000
            backoff = self.login.retry_backoff_ms, self.login.retry_backoff_max_ms
            wait_ms = next_wait_ms(attempts, elapsed_ms, *backoff)
            if wait_ms is None:
                raise first
            self.sleep(wait_ms / 1_000)
