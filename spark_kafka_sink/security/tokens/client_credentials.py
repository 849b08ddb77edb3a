"""Tokens from an OIDC issuer, by client id and secret (KIP-768)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.security.credentials_stamp import credentials_stamp
from spark_kafka_sink.security.tokens.retry import next_wait_ms
from spark_kafka_sink.security.tokens.token_endpoint import Refusal, TokenEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.security.model import ClientCredentialsLogin
    from spark_kafka_sink.security.credentials_stamp import Stamp
    from spark_kafka_sink.security.tokens.token import Token


@dataclass(frozen=True, slots=True)
class ClientCredentialsSource:
    """See `TokenSource`.

    Args:
        login: where and as whom to ask.
        clock: tells the time.
        sleep: waits for so many seconds.
    """

    login: ClientCredentialsLogin
    clock: Clock = field(default_factory=SystemClock, compare=False)
    sleep: Callable[[float], None] = field(default=time.sleep, compare=False)

    @property
    def shared(self) -> tuple[ClientCredentialsLogin, Stamp]:
        """See `TokenSource`; equal settings may refer to another secret than before."""
        return self.login, credentials_stamp(self.login)

    def fetch(self) -> Token:
        """Ask, and ask again where that may help.

        Raises:
            AuthenticationError: the first failure, as in Java, where no attempt gave a token.
            ConfigError: id or secret, or what the issuer is verified by, can't be found here.
        """
        endpoint = TokenEndpoint(self.login)
        began, attempts, first = self.clock.monotonic(), 0, None
        while True:
            answer = endpoint.ask(self.clock.wall_ms())
            if not isinstance(answer, Refusal):
                return answer
            attempts, first = attempts + 1, first or answer.error
            if not answer.retriable:
                raise answer.error
            wait_ms = self._next_wait_ms(attempts, began)
            if wait_ms is None:
                raise first
            self.sleep(wait_ms / 1_000)

    def _next_wait_ms(self, attempts: int, began: float) -> float | None:
        elapsed_ms = (self.clock.monotonic() - began) * 1_000
        return next_wait_ms(
            attempts, elapsed_ms, self.login.retry_backoff_ms, self.login.retry_backoff_max_ms
        )
