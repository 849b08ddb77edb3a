"""The files of security options, by the names under which Spark ships them.

`--files` and `addFile` (Connect: `addArtifact(file=True)`) put them into one folder of the driver
and of each executor, which a Python worker is told.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

from spark_kafka_sink.config.security.model import ClientCredentialsLogin
from spark_kafka_sink.security.shipped_files import located
from spark_kafka_sink.security.tls.context import check_stores

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.config.security.model import SecurityConfig, TlsConfig


def with_shipped_files(config: ProducerConfig) -> ProducerConfig:
    """The config with the paths that shipped files have in this process."""
    return replace(config, security=located(config.security, _folders()))


def check_security(config: ProducerConfig) -> None:
    """Open the key stores that the driver can read, before any task runs.

    Raises:
        ConfigError: one does not open.
    """
    for tls in _tls_configs(with_shipped_files(config).security):
        check_stores(tls)


def _tls_configs(security: SecurityConfig) -> list[TlsConfig]:
    """That of the brokers, and that of the issuer of tokens."""
    found = [security.tls]
    if security.sasl is not None and isinstance(security.sasl.login, ClientCredentialsLogin):
        found.append(security.sasl.login.tls)
    return [tls for tls in found if tls is not None]


def _folders() -> tuple[Path, ...]:
    """Where Spark puts files; nowhere outside of a Python worker and of a driver with a session."""
    try:
        return (Path(SparkFiles.getRootDirectory()),)
    except (AssertionError, AttributeError):
        return ()
