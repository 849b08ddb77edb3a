"""What the driver can find out before any task runs: stores that don't open, libraries missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.config.security.libraries import check_libraries
from spark_kafka_sink.config.security.model import ClientCredentialsLogin, JaasLogin
from spark_kafka_sink.security.resolved_login import resolved_login

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import SaslConfig, SecurityConfig, TlsConfig


def check_security(security: SecurityConfig) -> None:
    """Find on the driver what would fail every task; no connection is made.

    What only executors have, such as a file or a variable, is left to them.

    Raises:
        ConfigError: a store that can be read here does not open, or an extra is not installed.
    """
    if security.tls is not None:
        _check_stores(security.tls)
    if security.sasl is not None:
        _check_login(security.sasl)


def _check_login(config: SaslConfig) -> None:
    if isinstance(config.login, JaasLogin) and not config.login.jaas.is_here:
        return
    login = resolved_login(config)
    check_libraries(login)
    if isinstance(login, ClientCredentialsLogin) and login.tls is not None:
        _check_stores(login.tls)


def _check_stores(tls: TlsConfig) -> None:
    from spark_kafka_sink.security.tls.context import check_stores  # not without TLS: it takes long

    check_stores(tls)
