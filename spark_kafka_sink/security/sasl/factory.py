"""Create a SASL exchange from the settings of a mechanism."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, assert_never

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security import model
from spark_kafka_sink.config.security.values import check_libraries
from spark_kafka_sink.security.credentials import resolved_login
from spark_kafka_sink.security.sasl.oauthbearer import OAuthBearerExchange
from spark_kafka_sink.security.sasl.plain import PlainExchange
from spark_kafka_sink.security.sasl.scram import ScramExchange
from spark_kafka_sink.security.tokens.token import StaticTokenSource, UnsecuredTokenSource

if TYPE_CHECKING:
    from spark_kafka_sink.security.sasl.exchange import SaslExchange
    from spark_kafka_sink.security.tokens.token import TokenSource


def exchange_for(config: model.SaslConfig, host: str) -> SaslExchange:
    """Create the exchange for one authentication on one connection. This can block.

    Args:
        config: the mechanism and its login.
        host: the broker's host name as used to connect, without the port.

    Raises:
        ConfigError: a library that the mechanism needs is not installed, or a file or environment
            variable is missing on this host.
    """
    login = resolved_login(config)
    check_libraries(login)
    try:
        return _exchange(config, login, host)
    except ImportError as error:
        raise ConfigError(
            f"a library of the SASL mechanism {config.mechanism.value} cannot be loaded on "
            f"{socket.gethostname()}: {error}"
        ) from error


def _exchange(config: model.SaslConfig, login: model.Login, host: str) -> SaslExchange:
    match login:
        case model.PasswordLogin():
            if config.mechanism is model.Mechanism.PLAIN:
                return PlainExchange(login)
            return ScramExchange(config.mechanism, login)
        case model.KerberosLogin():
            from spark_kafka_sink.security.sasl.gssapi import GssapiExchange

            return GssapiExchange(login, host)
        case model.MskIamLogin():
            return OAuthBearerExchange(_token_source(login, host), config.refresh)
        case _:
            source = _token_source(login, host)
            return OAuthBearerExchange(source, config.refresh, login.extensions)


def _token_source(
    login: model.TokenLogin
    | model.UnsecuredTokenLogin
    | model.ClientCredentialsLogin
    | model.MskIamLogin,
    host: str,
) -> TokenSource:
    match login:
        case model.TokenLogin():
            return StaticTokenSource(login)
        case model.UnsecuredTokenLogin():
            return UnsecuredTokenSource(login)
        case model.ClientCredentialsLogin():
            from spark_kafka_sink.security.tokens.token_endpoint import ClientCredentialsSource

            return ClientCredentialsSource(login)
        case model.MskIamLogin():
            from spark_kafka_sink.security.tokens.msk_iam import MskIamSource, region_of

            return MskIamSource(login, region_of(login, host))
        case _:
            assert_never(login)
