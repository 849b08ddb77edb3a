"""Read PEM: blocks, and private keys in them.

PEM is read as in Kafka's clients (RFC 7468; DefaultSslEngineFactory.PemStore). In the value of an
option, line breaks can be replaced by spaces, or by a backslash and an n, as happens in properties
files and shells.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.security.credentials import utf8_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from spark_kafka_sink.common.secret import Secret

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+?)-----(.*?)-----END \1-----", re.DOTALL)
_HEADER = re.compile(r"^\s*[A-Za-z-]+:[^\n]*\n", re.MULTILINE)
_LINE = 64


@dataclass(frozen=True, slots=True)
class PemBlock:
    """One PEM block, from BEGIN to END."""

    label: str
    """Type of the block, such as CERTIFICATE or ENCRYPTED PRIVATE KEY."""
    headers: str
    """Headers of RFC 1421, such as `Proc-Type: 4,ENCRYPTED`; empty for newer formats."""
    data: bytes = field(repr=False)

    @property
    def is_certificate(self) -> bool:
        """True if the block is an X.509 certificate."""
        return self.label in {"CERTIFICATE", "X509 CERTIFICATE"}

    @property
    def is_private_key(self) -> bool:
        """True if the block is a private key of any kind, encrypted or not."""
        return self.label.endswith("PRIVATE KEY")

    def text(self) -> bytes:
        """Return the block as PEM, with the line breaks that OpenSSL requires."""
        body = base64.b64encode(self.data).decode("ascii")
        lines = [body[start : start + _LINE] for start in range(0, len(body), _LINE)]
        headers = f"{self.headers}\n" if self.headers else ""
        joined = "\n".join(lines)
        return (
            f"-----BEGIN {self.label}-----\n{headers}{joined}\n-----END {self.label}-----\n"
        ).encode("ascii")


def pem_blocks(text: str, option: str) -> list[PemBlock]:
    """Return all blocks of a text in order. Text between the blocks is ignored.

    Raises:
        ConfigError: a block is empty or not base64.
    """
    spread = text.replace("\\n", "\n").replace("\\r", "").replace("\r", "")
    return [_parse_block(match[1], match[2], option) for match in _BLOCK.finditer(spread)]


def _parse_block(label: str, body: str, option: str) -> PemBlock:
    headers = "".join(f"{match[0].strip()}\n" for match in _HEADER.finditer(body))
    encoded = "".join(_HEADER.sub("", body).split())
    if not (headers.isascii() and encoded.isascii()):
        raise _damaged_error(label, option, "contains characters that are not ASCII")
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise _damaged_error(label, option, "is not base64") from error
    if not data:
        raise _damaged_error(label, option, "is empty")
    return PemBlock(label, headers, data)


def _damaged_error(label: str, option: str, problem: str) -> ConfigError:
    return ConfigError(
        f"option {option} contains a PEM block {label} that {problem}",
        hint="Set the option to the unchanged text of the file; line breaks can be replaced by "
        "spaces.",
    )


def private_key(block: PemBlock, password: Secret | None, option: str) -> PrivateKeyTypes:
    """Load a private key from PEM: PKCS#1, PKCS#8 or SEC 1, encrypted or not.

    Args:
        block: PEM block with a private key.
        password: password of the key; ignored if the key is not encrypted.
        option: the option that contains the key; shown in errors.

    Raises:
        ConfigError: the password is missing or wrong, or the key cannot be read.
    """
    is_encrypted = block.label == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in block.headers
    if is_encrypted and password is None:
        raise ConfigError(
            f"the private key in option {option} is encrypted, and no password is set for it",
            hint="Set kafka.ssl.key.password.",
        )
    secret = utf8_text(password).encode() if password is not None and is_encrypted else None
    try:
        return serialization.load_pem_private_key(block.text(), secret)
    except UnsupportedAlgorithm as error:
        raise ConfigError(
            f"the private key in option {option} has an unsupported type: {error}",
            hint="Recreate it with openssl pkcs8 -topk8 -v2 aes-256-cbc.",
        ) from error
    except (ValueError, TypeError) as error:
        raise _unreadable_key_error(option, is_encrypted=is_encrypted) from error


def _unreadable_key_error(option: str, *, is_encrypted: bool) -> ConfigError:
    if is_encrypted:
        return ConfigError(
            f"the private key in option {option} cannot be decrypted with kafka.ssl.key.password",
            hint="The password is wrong, the key is damaged, or its cipher is not supported: "
            "recreate it with openssl pkcs8 -topk8 -v2 aes-256-cbc.",
        )
    return ConfigError(
        f"the private key in option {option} cannot be read",
        hint="It must be PEM with PKCS#8, PKCS#1 or SEC 1, as written by openssl pkey.",
    )


def encrypt_private_key(key: PrivateKeyTypes) -> tuple[bytes, str]:
    """Return the key as encrypted PKCS#8 in PEM, and a new passphrase for it."""
    passphrase = secrets.token_hex(32)
    encryption = serialization.BestAvailableEncryption(passphrase.encode())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return text, passphrase
