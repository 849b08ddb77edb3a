"""What the server's side of every SASL mechanism has in common (RFC 4422)."""

from __future__ import annotations

from typing import Protocol

from spark_kafka_sink.common.errors import AuthenticationError


class RefusedError(AuthenticationError):
    """The client is not who it says; `is_told` is False where Kafka keeps the reason to itself.

    Kafka tells the messages of its SaslAuthenticationException, and hides those of SaslException,
    as they would tell which users there are.
    """

    is_told = False


class ToldRefusedError(RefusedError):
    """A refusal whose reason the client gets."""

    is_told = True


class SaslServer(Protocol):
    """One exchange; `user` and `expires_at_ms` count once it is complete."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has proven who it is."""

    @property
    def user(self) -> str:
        """The name that it has proven."""

    @property
    def expires_at_ms(self) -> int | None:
        """When its credential ends, in milliseconds of the epoch; None where it does not."""

    def evaluate(self, response: bytes) -> bytes:
        """Answer the client's message; the answer may be empty.

        Raises:
            RefusedError: it is not who it says it is, or its message can't be understood.
        """
