"""Opens JKS stores; a wrong password is a sentence with the option to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.security.credentials import utf8_text
from spark_kafka_sink.security.tls.jks import JksFormatError, JksPasswordError, read_jks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.security.tls.jks import JksKey, JksStore


def opened_jks(content: bytes, password: Secret | None, option: str) -> JksStore:
    """Read a store.

    Args:
        content: the whole file.
        password: of the store; without it its checksum is not looked at, as in Java.
        option: the full name of the location's option.

    Raises:
        ConfigError: the password is wrong, or the file is damaged.
    """
    try:
        return read_jks(content, utf8_text(password) if password is not None else None)
    except JksPasswordError as error:
        raise ConfigError(
            f"the JKS store of option {option} does not open",
            hint=f"{option.replace('.location', '.password')} is wrong, or the file is damaged.",
        ) from error
    except JksFormatError as error:
        raise ConfigError(
            f"the JKS store of option {option} is damaged: it ends too early",
            hint="Copy it anew, as a binary file.",
        ) from error


def jks_private_key(key: JksKey, password: Secret | None, option: str) -> PrivateKeyTypes:
    """The key of an entry.

    Args:
        key: the entry.
        password: of the key, which is the store's where it has none of its own.
        option: the full name of the location's option.

    Raises:
        ConfigError: the password is missing or wrong, or the key can't be read.
    """
    if password is None:
        raise ConfigError(
            f"the private key in option {option} is encrypted, and there is no password for it",
            hint="Set kafka.ssl.keystore.password, or kafka.ssl.key.password if the key's differs.",
        )
    try:
        return serialization.load_der_private_key(key.decrypt(utf8_text(password)), None)
    except JksPasswordError as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} does not open with "
            f"{password.option}",
            hint="The password is wrong, or not the key's: set kafka.ssl.key.password to its own.",
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} is of a kind that can't be read",
            hint="Convert the store with keytool -importkeystore -deststoretype pkcs12.",
        ) from error
