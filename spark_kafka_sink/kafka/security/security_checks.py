"""Check security settings on the driver before any task runs: stores, secrets and libraries."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.security_config import (
    ClientCredentialsLogin,
    JaasLogin,
    TokenLogin,
)
from spark_kafka_sink.kafka.security import changing_files, credentials
from spark_kafka_sink.kafka.security.sasl.login_libraries import check_libraries

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.config.security.security_config import (
        SaslConfig,
        SecurityConfig,
        TlsConfig,
    )

_MAX_CACHED = 8
"""Maximum number of remembered configurations that have passed. The least recently used
configuration is dropped first.
"""

_LOG = logging.getLogger(__name__)


def check_security(security: SecurityConfig) -> None:
    """Raise if the settings would fail every task. No connection is opened.

    Files and environment variables that only executors have are not checked.

    Raises:
        ConfigError: a store that is readable here cannot be opened, an extra is not installed, or a
            name or password that is readable here is invalid.
    """
    if security.tls is not None:
        _check_stores(security.tls)
    if security.sasl is not None:
        _check_login(security.sasl)


def _check_login(config: SaslConfig) -> None:
    if isinstance(config.login, JaasLogin) and not config.login.jaas.exists_on_host:
        return
    login = credentials.resolve_login(config)
    check_libraries(login)
    for secret in credentials.secrets_of(login):
        # A token can have several line breaks; it is checked when it is sent.
        if secret.exists_on_host and not isinstance(login, TokenLogin):
            credentials.reveal_text(secret)
    if isinstance(login, ClientCredentialsLogin) and login.tls is not None:
        _check_stores(login.tls)


def _check_stores(tls: TlsConfig) -> None:
    from spark_kafka_sink.kafka.security.tls.client_context import check_stores

    check_stores(tls)


def _files_of(security: SecurityConfig) -> tuple[str, ...]:
    if security.tls is None:
        return ()
    from spark_kafka_sink.kafka.security.tls.stores import store_files  # slow import, only for TLS

    return store_files(security.tls)


class StreamSecurityCheck:
    """Runs `check_security` before each micro-batch, and tolerates the renewal of files.

    After settings have passed once in this process, they no longer fail a stream: tasks continue
    with the files that they read earlier, or report the problem themselves. Spark might plan each
    micro-batch in a different process. Therefore, settings that have not passed yet are checked
    again for a few seconds if files are being replaced.

    Args:
        check: see `check_security`.
        settling: seconds to wait for files that are being replaced.
    """

    def __init__(
        self,
        check: Callable[[SecurityConfig], None] = check_security,
        settling: float = changing_files.SETTLING_S,
    ) -> None:
        self._check = check
        self._settling = settling
        self._passed: dict[SecurityConfig, None] = {}

    def check_files(self, security: SecurityConfig) -> None:
        """Check the current files.

        Raises:
            ConfigError: see `check_security`; not raised if these settings have already passed.
        """
        has_passed = security in self._passed
        self._passed.pop(security, None)
        try:
            changing_files.retry_while_files_change(
                _files_of(security),
                lambda: self._check(security),
                0.0 if has_passed else self._settling,
            )
        except Exception as error:
            if not has_passed:
                raise
            # The error text of a library might contain secrets.
            text = error if isinstance(error, ConfigError) else type(error).__name__
            _LOG.warning(
                "Cannot reload the security files; the stream continues with those read earlier: "
                "%s",
                text,
            )
        self._passed[security] = None
        while len(self._passed) > _MAX_CACHED:
            del self._passed[next(iter(self._passed))]


stream_security_check = StreamSecurityCheck()
"""The check for all streams that are planned by this process."""
