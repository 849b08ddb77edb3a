"""What the driver can find out before any task runs: stores that don't open, libraries missing."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import (
    ClientCredentialsLogin,
    JaasLogin,
    PasswordLogin,
)
from spark_kafka_sink.config.security.values import check_libraries
from spark_kafka_sink.security.credentials import (
    SETTLING_S,
    change_follows,
    resolved_login,
    revealed,
    stamps_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.model import (
        Login,
        SaslConfig,
        SecurityConfig,
        TlsConfig,
    )

MAX_KEPT = 8
"""Configurations that a process knows to have passed; the one unused longest goes first."""

_LOG = logging.getLogger(__name__)


def check_security(security: SecurityConfig) -> None:
    """Find on the driver what would fail every task; no connection is made.

    What only executors have, such as a file or a variable, is left to them.

    Raises:
        ConfigError: a store that can be read here does not open, an extra is not installed, or a
            name or password that is here can't be one.
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
    for secret in _words_of(login):
        if secret.is_here:
            revealed(secret)
    if isinstance(login, ClientCredentialsLogin) and login.tls is not None:
        _check_stores(login.tls)


def _words_of(login: Login) -> tuple[Secret, ...]:
    """Who logs in and with what, where that is a name and a secret."""
    if isinstance(login, PasswordLogin):
        return login.username, login.password
    if isinstance(login, ClientCredentialsLogin):
        return login.client_id, login.client_secret
    return ()


def _check_stores(tls: TlsConfig) -> None:
    from spark_kafka_sink.security.tls.context import check_stores  # not without TLS: it takes long

    check_stores(tls)


def _files_of(security: SecurityConfig) -> tuple[str, ...]:
    if security.tls is None:
        return ()
    from spark_kafka_sink.security.tls.stores import files_of  # as above

    return files_of(security.tls)


class StreamPreflight:
    """`check_security` before each micro-batch of a stream, which must outlive renewed files.

    What has passed once in this process ends no stream any more: tasks go on with what they read
    before, and say so themselves if they can't. What has not has a few seconds where files are
    being replaced, as Spark may plan each micro-batch in another process.

    Args:
        check: see `check_security`.
        settling: seconds to wait for files that are being replaced.
    """

    def __init__(
        self,
        check: Callable[[SecurityConfig], None] = check_security,
        settling: float = SETTLING_S,
    ) -> None:
        self._check = check
        self._settling = settling
        self._passed: dict[SecurityConfig, None] = {}

    def check(self, security: SecurityConfig) -> None:
        """Look at the files as they are now.

        Raises:
            ConfigError: see `check_security`; never after it has passed.
        """
        has_passed = security in self._passed
        self._passed.pop(security, None)
        try:
            self._check_patiently(security, 0.0 if has_passed else self._settling)
        except Exception as error:
            if not has_passed:
                raise
            # The text of a library's error may hold what it could not read.
            told = error if isinstance(error, ConfigError) else type(error).__name__
            _LOG.warning("The stream goes on with the files read before: %s", told)
        self._passed[security] = None
        while len(self._passed) > MAX_KEPT:
            del self._passed[next(iter(self._passed))]

    def _check_patiently(self, security: SecurityConfig, settling: float) -> None:
        files, deadline = _files_of(security), time.monotonic() + settling
        while True:
            stamps = stamps_of(files)
            try:
                return self._check(security)
            except Exception:
                if not change_follows(files, stamps, deadline):
                    raise


STREAMS = StreamPreflight()
"""Those planned by this process."""
