"""The client side that all SASL mechanisms share (RFC 4422)."""

from __future__ import annotations

from typing import Protocol

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.text import quoted

__all__ = ["check_size", "decoded", "quoted"]

LARGEST = 64 * 1024
"""Bytes. The longest message that any of the mechanisms needs is far below."""


def check_size(message: bytes, mechanism: str) -> None:
    """Refuse a message that no broker needs to send.

    Raises:
        AuthenticationError: it is longer than `LARGEST`.
    """
    if len(message) > LARGEST:
        raise AuthenticationError(
            f"the broker's {mechanism} message has {len(message):,} bytes, more than the "
            f"{LARGEST:,} that are accepted"
        )


def decoded(message: bytes, mechanism: str) -> str:
    """The message as text.

    Raises:
        AuthenticationError: it is too long, or not UTF-8.
    """
    check_size(message, mechanism)
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError(f"the broker's {mechanism} message is not UTF-8") from error


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
