"""Private keys: read, decrypted, and handed on only under a passphrase used once."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.security.credentials import utf8_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.security.tls.pem import PemBlock


def private_key(block: PemBlock, password: Secret | None, option: str) -> PrivateKeyTypes:
    """A key of any PEM kind: PKCS#1, PKCS#8, SEC 1, encrypted or not.

    Args:
        block: of a kind that is a private key.
        password: needed if it is encrypted, else not looked at.
        option: where the key comes from, for errors.

    Raises:
        ConfigError: the password is missing or wrong, or it is no key that can be read.
    """
    is_encrypted = block.label == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in block.headers
    if is_encrypted and password is None:
        raise ConfigError(
            f"the private key in option {option} is encrypted, and there is no password for it",
            hint="Set kafka.ssl.key.password.",
        )
    secret = utf8_text(password).encode() if password is not None and is_encrypted else None
    try:
        return serialization.load_pem_private_key(block.text(), secret)
    except UnsupportedAlgorithm as error:
        raise ConfigError(
            f"the private key in option {option} is of a kind that can't be read: {error}",
            hint="Write it anew with openssl pkcs8 -topk8 -v2 aes-256-cbc.",
        ) from error
    except (ValueError, TypeError) as error:
        raise _unreadable(option, is_encrypted=is_encrypted) from error


def _unreadable(option: str, *, is_encrypted: bool) -> ConfigError:
    if is_encrypted:
        return ConfigError(
            f"the private key in option {option} does not open with kafka.ssl.key.password",
            hint="The password is wrong, the key is damaged, or its cipher is a rare one: "
            "openssl pkcs8 -topk8 -v2 aes-256-cbc writes one that can be read.",
        )
    return ConfigError(
        f"the private key in option {option} can't be read",
        hint="It must be PEM of PKCS#8, PKCS#1 or SEC 1, as openssl pkey writes it.",
    )


def sealed(key: PrivateKeyTypes) -> tuple[bytes, str]:
    """The key as encrypted PKCS#8 in PEM, and the passphrase, made for this one time."""
    passphrase = secrets.token_hex(32)
    encryption = serialization.BestAvailableEncryption(passphrase.encode())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return text, passphrase
