"""Resolve a login's references, and read the texts of secrets."""

from __future__ import annotations

import socket
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_file
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import JaasLogin, SaslConfig
from spark_kafka_sink.kafka.security.shipped_files import locate_files

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_config import KeyStore, Login, TrustStore


def secrets_of(settings: TrustStore | KeyStore | Login) -> tuple[Secret, ...]:
    """Return the secrets of a store or a login that are set, without those of nested settings."""
    values = (getattr(settings, field.name) for field in fields(settings))
    return tuple(value for value in values if isinstance(value, Secret))


def resolve_login(config: SaslConfig) -> Login:
    """Return the login, with the paths of its files on this host.

    Raises:
        ConfigError: a reference cannot be resolved on this host, or the referenced text is not a
            valid login.
    """
    from spark_kafka_sink.config.security.sasl import resolve_references  # needed only for logins

    login = resolve_references(config)
    if not isinstance(config.login, JaasLogin):
        return login
    return locate_files(login, [Path(folder) for folder in config.login.folders])


def reveal_text(secret: Secret) -> str:
    """Return the text of a secret, which must not be empty.

    Raises:
        ConfigError: the secret cannot be found, is empty or not UTF-8, or ends with a line break.
    """
    text = utf8_text(secret)
    if not text:
        raise ConfigError(
            f"option {secret.option} is empty",
            hint="Set it, or write the text into the variable or file to which it refers.",
        )
    return text


def utf8_text(secret: Secret) -> str:
    """Return the text of a secret, which can be empty.

    Raises:
        ConfigError: the secret cannot be found, is not UTF-8, or ends with a line break, which is
            most likely a mistake in the file or the environment variable.
    """
    text = secret.reveal()
    try:
        text.encode()
    except UnicodeEncodeError:
        # An environment variable contains bytes that are not UTF-8. The cause is suppressed,
        # because it contains the secret.
        raise ConfigError(
            f"option {secret.option} is not UTF-8",
            hint="Set the environment variable to UTF-8 text, or use file:PATH.",
        ) from None
    if text.endswith(("\n", "\r")):
        how = "ends with a line break" if secret.file is None else _line_breaks_in(secret.file)
        raise ConfigError(
            f"option {secret.option} {how}",
            hint="Remove it: a line break would be part of the name or the password.",
        )
    return text


def _line_breaks_in(path: str) -> str:
    return (
        f"refers to {safe_file(path)}, which ends with more than one line break on "
        f"{socket.gethostname()}"
    )
