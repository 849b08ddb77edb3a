"""The exchange of PLAIN (RFC 4616)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.security.credentials import reveal_text
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.security_config import PasswordLogin
    from spark_kafka_sink.kafka.security.sasl.exchange import Messages


def plain_exchange(login: PasswordLogin) -> SaslExchange:
    """Create the exchange for one authentication."""
    return SaslExchange("PLAIN", _plain_messages(login))


def _plain_messages(login: PasswordLogin) -> Messages:
    """Yield `NUL name NUL password`.

    Kafka does not use the authorization identity. The broker's response is ignored, as in Java.
    """
    yield b"\0" + _without_nul(login.username) + b"\0" + _without_nul(login.password)


def _without_nul(secret: Secret) -> bytes:
    text = reveal_text(secret)
    if "\0" in text:
        raise ConfigError(
            f"option {secret.option} contains a NUL character, which PLAIN cannot send",
            hint="Remove the character.",
        )
    return text.encode()
