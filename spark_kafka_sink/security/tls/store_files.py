"""Reads the files that options name; the error names option, path and host."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown_file
from spark_kafka_sink.config.security.model import KeyStore, TrustStore

if TYPE_CHECKING:
    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.model import TlsConfig

TRUSTSTORE_LOCATION = "kafka.ssl.truststore.location"
KEYSTORE_LOCATION = "kafka.ssl.keystore.location"


def files_of(config: TlsConfig) -> tuple[str, ...]:
    """Every file that a context is made from, secrets in files and the system's authorities too."""
    trust, keys = config.truststore, config.keystore
    system = ssl.get_default_verify_paths().cafile if trust is None else None
    named = [system, *(store.location for store in (trust, keys) if store is not None)]
    secrets = [*secrets_of(trust), *secrets_of(keys)]
    return tuple(path for path in (*named, *(secret.file for secret in secrets)) if path)


def secrets_of(store: TrustStore | KeyStore | None) -> tuple[Secret, ...]:
    """The secrets of a store that are set."""
    found: tuple[Secret | None, ...] = ()
    if isinstance(store, TrustStore):
        found = (store.certificates, store.password)
    if isinstance(store, KeyStore):
        found = (store.certificate_chain, store.key, store.password, store.key_password)
    return tuple(secret for secret in found if secret is not None)


def is_here(store: TrustStore | KeyStore) -> bool:
    """Whether this process can read all that the store consists of."""
    location = store.location
    can_be_read = location is None or os.access(location, os.R_OK)
    return can_be_read and all(secret.is_here for secret in secrets_of(store))


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
    except ValueError:
        raise ConfigError(f"option {option} holds no path: it has a NUL character") from None
    except OSError as error:
        raise ConfigError(
            f"option {option} names {shown_file(location)}, which can't be read on "
            f"{socket.gethostname()}: {error.strerror}",
            hint=_hint(location, error),
        ) from None  # the cause repeats what is no path


def _hint(location: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "Let the user that Spark's driver and executors run as read it."
    if Path(location).is_absolute() and location in shown_file(location):
        return (
            "The file must be on the driver and on every executor: put it there, or ship it with "
            f"--files {location} and give the option the name {Path(location).name}."
        )
    return (
        f"It was looked for in the working directory {Path.cwd()} and among the files that Spark "
        "ships: ship it with --files or spark.sparkContext.addFile, or give an absolute path."
    )
