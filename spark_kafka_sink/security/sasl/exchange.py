"""What every SASL mechanism's client side has in common (RFC 4422)."""

from __future__ import annotations

from typing import Protocol


class SaslExchange(Protocol):
    """One authentication on one connection; made anew for each, also for a re-authentication.

    Both calls may take long (a token is fetched, a ticket asked for, a password hashed), so they
    are made on a thread that may wait, one at a time, and never in the sender's loop.
    """

    @property
    def mechanism(self) -> str:
        """The name for SaslHandshake; AWS_MSK_IAM's exchange is an OAUTHBEARER."""

    def first(self) -> bytes:
        """The first message to the broker, which may be empty.

        Raises:
            AuthenticationError: there is nothing to log in with: no ticket, no token.
            ConfigError: a secret can't be found on this host.
        """

    def answer(self, challenge: bytes) -> bytes | None:
        """What to answer to the broker's message; None where the exchange is complete.

        Raises:
            AuthenticationError: the broker's message is not what the mechanism allows, or the
                broker could not prove that it knows the secret too.
        """
