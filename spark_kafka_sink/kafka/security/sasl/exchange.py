"""Client-side code that all SASL mechanisms share (RFC 4422)."""

from __future__ import annotations

from contextlib import suppress
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TYPE_CHECKING, TypeAlias

from spark_kafka_sink.common.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Generator

    Messages: TypeAlias = Generator[bytes, bytes, None]
    """Yields the client's messages and receives the broker's response to each. It returns when the
    exchange is complete.
    """

_MAX_MESSAGE_BYTES = 64 * 1024
"""Maximum size of a message in bytes. All mechanisms use far smaller messages."""


def check_size(message: bytes, mechanism: str) -> None:
    """Raise if a message is too large.

    Raises:
        AuthenticationError: the message is longer than `_MAX_MESSAGE_BYTES`.
    """
    if len(message) > _MAX_MESSAGE_BYTES:
        raise AuthenticationError(
            f"the broker's {mechanism} message has {len(message):,} bytes, more than the limit of "
            f"{_MAX_MESSAGE_BYTES:,}"
        )


def decode_text(message: bytes, mechanism: str) -> str:
    """Return the message as text.

    Raises:
        AuthenticationError: the message is too long, or not UTF-8.
    """
    check_size(message, mechanism)
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError(f"the broker's {mechanism} message is not UTF-8") from error


class SaslExchange:
    """One authentication on one connection; each re-authentication uses a new exchange.

    The methods that return a message can block for a long time (to fetch a token, request a ticket,
    or hash a password). Therefore they are called one at a time on a thread that is allowed to
    block, never on the sender thread.

    Args:
        mechanism: the mechanism's name in SaslHandshake. It is OAUTHBEARER for AWS_MSK_IAM.
        messages: the mechanism's messages.
    """

    def __init__(self, mechanism: str, messages: Messages) -> None:
        self.mechanism = mechanism
        self._messages = messages

    def initial_response(self) -> bytes:
        """Return the first message to the broker, which can be empty.

        Raises:
            AuthenticationError: no ticket or token can be obtained.
            ConfigError: a secret cannot be found on this host, or cannot be sent.
        """
        return next(self._messages)

    def next_response(self, challenge: bytes) -> bytes | None:
        """Return the response to the broker's message, or None if the exchange is complete.

        Raises:
            AuthenticationError: the broker's message violates the mechanism, or the broker could
                not prove that it knows the secret.
            ConfigError: a secret cannot be found on this host.
        """
        if getgeneratorstate(self._messages) == GEN_CLOSED:
            raise AuthenticationError(
                f"the broker continued the {self.mechanism} exchange after its end"
            )
        try:
            return self._messages.send(challenge)
        except StopIteration:
            return None

    def reject(self) -> None:
        """Let the mechanism discard what the broker has rejected, such as a token."""
        with suppress(AuthenticationError):
            self._messages.throw(AuthenticationError("the broker rejected the login"))
