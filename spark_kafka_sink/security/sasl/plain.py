"""PLAIN (RFC 4616): user name and password in clear text, protected only by TLS."""

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
        """Return `NUL name NUL password`. Kafka does not use the authorization identity.

        Raises:
            ConfigError: name or password cannot be found, is empty, or contains a NUL character.
        """
        return b"\0" + _without_nul(self.login.username) + b"\0" + _without_nul(self.login.password)

    def answer(self, challenge: bytes) -> None:  # noqa: ARG002
        """Return None, because the exchange is complete.

        Data from the broker is ignored, as in Java.
        """
        return


def _without_nul(secret: Secret) -> bytes:
    text = revealed(secret)
    if "\0" in text:
        raise ConfigError(
            f"option {secret.option} contains a NUL character, which PLAIN cannot send"
        )
    return text.encode()
