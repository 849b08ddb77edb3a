"""From a mechanism's settings to one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import Mechanism, PasswordLogin
from spark_kafka_sink.security.sasl.plain import PlainExchange
from spark_kafka_sink.security.sasl.scram import ScramExchange

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import SaslConfig
    from spark_kafka_sink.security.sasl.exchange import SaslExchange


def exchange_for(config: SaslConfig, host: str) -> SaslExchange:  # noqa: ARG001
    """One authentication on one connection.

    Args:
        config: the mechanism and its login.
        host: the broker's name as the client connects to it, without the port.

    Raises:
        ConfigError: a library that the mechanism needs is not installed.
    """
    match config.login:
        case PasswordLogin():
            if config.mechanism is Mechanism.PLAIN:
                return PlainExchange(config.login)
            return ScramExchange(config.mechanism, config.login)
        case _:
            raise ConfigError(f"{config.mechanism.value} is not available")
