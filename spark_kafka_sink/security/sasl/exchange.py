"""Client-side code that all SASL mechanisms share (RFC 4422)."""

from __future__ import annotations

from typing import Protocol

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.text import quoted

__all__ = ["check_size", "decoded", "quoted"]

LARGEST = 64 * 1024
"""Maximum size of a message in bytes. All mechanisms use far smaller messages."""


def check_size(message: bytes, mechanism: str) -> None:
    """Raise if a message is too large.

    Raises:
        AuthenticationError: the message is longer than `LARGEST`.
    """
    if len(message) > LARGEST:
        raise AuthenticationError(
            f"the broker's {mechanism} message has {len(message):,} bytes, more than the limit of "
            f"{LARGEST:,}"
        )


def decoded(message: bytes, mechanism: str) -> str:
    """Return the message as text.

    Raises:
        AuthenticationError: the message is too long, or not UTF-8.
    """
    check_size(message, mechanism)
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError(f"the broker's {mechanism} message is not UTF-8") from error


class SaslExchange(Protocol):
    """One authentication on one connection; each re-authentication uses a new exchange.

    Both methods can block for a long time (to fetch a token, request a ticket, or hash a password).
    Therefore they are called one at a time on a thread that is allowed to block, never on the
    sender thread.
    """

    @property
    def mechanism(self) -> str:
        """The mechanism's name in SaslHandshake. It is OAUTHBEARER for AWS_MSK_IAM."""

    def first(self) -> bytes:
        """Return the first message to the broker, which can be empty.

        Raises:
            AuthenticationError: no ticket or token can be obtained.
            ConfigError: a secret cannot be found on this host.
        """

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the response to the broker's message, or None if the exchange is complete.

        Raises:
            AuthenticationError: the broker's message violates the mechanism, or the broker could
                not prove that it knows the secret.
        """
