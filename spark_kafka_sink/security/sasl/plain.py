"""PLAIN (RFC 4616): name and password as they are; only TLS hides them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.security.credentials import revealed

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.model import PasswordLogin


@dataclass(slots=True)
class PlainExchange:
    """See `SaslExchange`."""

    login: PasswordLogin

    @property
    def mechanism(self) -> str:
        """See `SaslExchange`."""
        return "PLAIN"

    def first(self) -> bytes:
        """`NUL name NUL password`: no authorization identity, as Kafka has none but the name.

        Raises:
            ConfigError: name or password can't be found, is empty, or holds a NUL.
        """
        return b"\0" + _without_nul(self.login.username) + b"\0" + _without_nul(self.login.password)

    def answer(self, challenge: bytes) -> None:  # noqa: ARG002
        """The exchange is complete; what a broker adds has no meaning, and Java ignores it."""
        return


def _without_nul(secret: Secret) -> bytes:
    text = revealed(secret)
    if "\0" in text:
        raise ConfigError(f"option {secret.option} holds a NUL, which PLAIN can't send")
    return text.encode()
