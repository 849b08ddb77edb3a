"""Reads the files that options name; the error names option, path and host."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.model import TlsConfig

TRUSTSTORE_LOCATION = "kafka.ssl.truststore.location"
KEYSTORE_LOCATION = "kafka.ssl.keystore.location"


def files_of(config: TlsConfig) -> tuple[str, ...]:
    """Every file that a context is made from, secrets in files and the system's authorities too."""
    trust, keys = config.truststore, config.keystore
    named: list[str | None] = [ssl.get_default_verify_paths().cafile] if trust is None else []
    secrets: list[Secret | None] = []
    if trust is not None:
        named.append(trust.location)
        secrets += [trust.certificates, trust.password]
    if keys is not None:
        named.append(keys.location)
        secrets += [keys.certificate_chain, keys.key, keys.password, keys.key_password]
    named += [secret.file for secret in secrets if secret is not None]
    return tuple(path for path in named if path is not None)


def read_store(location: str, option: str) -> bytes:
    """The bytes of a store.

    Args:
        location: an absolute path, or one relative to this process's working directory.
        option: the full name of the option that gives it.

    Raises:
        ConfigError: the file isn't there or can't be read by this process.
    """
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"option {option} names the file {location}, which can't be read on "
            f"{socket.gethostname()}: {error.strerror}",
            hint=_hint(location, error),
        ) from error


def _hint(location: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "Let the user that Spark's driver and executors run as read it."
    if Path(location).is_absolute():
        return (
            "The file must be on the driver and on every executor: put it there, or ship it with "
            f"--files {location} and give the option the name {Path(location).name}."
        )
    return (
        f"It was looked for in the working directory {Path.cwd()} and among the files that Spark "
        "ships: ship it with --files or spark.sparkContext.addFile, or give an absolute path."
    )
