"""Create a SASL exchange from the settings of a mechanism."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, assert_never

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security import security_config
from spark_kafka_sink.config.security.security_config import Mechanism
from spark_kafka_sink.kafka.security.credentials import resolve_login
from spark_kafka_sink.kafka.security.sasl.login_libraries import check_libraries
from spark_kafka_sink.kafka.security.sasl.oauthbearer import bearer_exchange
from spark_kafka_sink.kafka.security.sasl.plain import plain_exchange
from spark_kafka_sink.kafka.security.sasl.scram import scram_exchange
from spark_kafka_sink.kafka.security.tokens.token_sources import (
    StaticTokenSource,
    UnsecuredTokenSource,
)

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
    from spark_kafka_sink.kafka.security.tokens.token import TokenSource


def exchange_for(config: security_config.SaslConfig, host: str) -> SaslExchange:
    """Create the exchange for one authentication on one connection. This can block.

    Args:
        config: the mechanism and its login.
        host: the broker's host name as used to connect, without the port.

    Raises:
        ConfigError: a library that the mechanism needs is not installed, or a file or environment
            variable is missing on this host.
    """
    login = resolve_login(config)
    check_libraries(login)
    try:
        return _new_exchange(config, login, host)
    except ImportError as error:
        raise ConfigError(
            f"a library of the SASL mechanism {config.mechanism.value} cannot be loaded on "
            f"{socket.gethostname()}: {error}",
            hint="Install what the error names on this host.",
        ) from error


def _new_exchange(
    config: security_config.SaslConfig, login: security_config.Login, host: str
) -> SaslExchange:
    match login:
        case security_config.PasswordLogin() if config.mechanism is Mechanism.PLAIN:
            return plain_exchange(login)
        case security_config.PasswordLogin():
            return scram_exchange(config.mechanism, login)
        case security_config.KerberosLogin():
            from spark_kafka_sink.kafka.security.sasl.gssapi import gssapi_exchange

            return gssapi_exchange(login, host)
        case _:
            extensions = () if isinstance(login, security_config.MskIamLogin) else login.extensions
            return bearer_exchange(_token_source(login, host), config.refresh, extensions)


def _token_source(
    login: security_config.TokenLogin
    | security_config.UnsecuredTokenLogin
    | security_config.ClientCredentialsLogin
    | security_config.MskIamLogin,
    host: str,
) -> TokenSource:
    match login:
        case security_config.TokenLogin():
            return StaticTokenSource(login)
        case security_config.UnsecuredTokenLogin():
            return UnsecuredTokenSource(login)
        case security_config.ClientCredentialsLogin():
            from spark_kafka_sink.kafka.security.tokens.client_credentials import (
                ClientCredentialsSource,
            )

            return ClientCredentialsSource(login)
        case security_config.MskIamLogin():
            from spark_kafka_sink.kafka.security.tokens.msk_iam import MskIamSource, region_of

            return MskIamSource(login, region_of(login, host))
        case _:
            assert_never(login)
