"""What every source of tokens has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from spark_kafka_sink.security.tokens.token import Token


class TokenSource(Protocol):
    """Where tokens come from: frozen, so that connections with the same settings share one."""

    @property
    def shared(self) -> Hashable | None:
        """Under what its tokens are kept for others; None where asking again costs nothing."""

    def fetch(self) -> Token:
        """A new token; may take long.

        Raises:
            AuthenticationError: there is none, or the issuer refuses it or can't be reached.
            ConfigError: a secret can't be found on this host.
        """
