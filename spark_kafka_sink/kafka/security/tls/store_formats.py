"""Read PKCS12 and JKS stores, and detect the format of a store.

As in Java, JKS and PKCS12 are detected from the bytes of the file (keystore.type.compat), because
PKCS12 files are often configured without a type although Kafka's default is JKS. Only PEM must be
configured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.security_config import StoreType
from spark_kafka_sink.kafka.security.credentials import utf8_text
from spark_kafka_sink.kafka.security.tls import jks

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

    from spark_kafka_sink.common.secret import Secret

_JCEKS = b"\xce\xce\xce\xce"
_SEQUENCE = b"0"
"""The first byte of DER, in which PKCS12 stores, certificates and keys are written."""
_PKCS12_VERSION = b"\x02\x01\x03"
"""The integer 3 in DER, with which the sequence of a PKCS12 store begins (RFC 7292)."""
_OWN_KEY_HINT = (
    " A key with a password other than the store's is not supported: recreate the store with "
    "keytool."
)


def store_format(content: bytes, declared: StoreType, option: str) -> StoreType:
    """Return the format of a store.

    Args:
        content: the file's bytes.
        declared: the configured type, or Java's default.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the file is PEM but not configured as PEM, is configured as PEM but has a
            different format, has an unknown format, or is a certificate or a key in DER.
    """
    detected = _detected_format(content)
    type_option = option.replace(".location", ".type")
    if content.startswith(_JCEKS):
        raise ConfigError(
            f"option {option} refers to a JCEKS keystore, which is not supported",
            hint="Convert it with keytool -importkeystore -deststoretype pkcs12.",
        )
    looks_pem = b"-----BEGIN " in content
    if detected is None and not looks_pem and content.startswith(_SEQUENCE):
        raise ConfigError(
            f"option {option} refers to a file that is neither PEM, JKS nor PKCS12",
            hint="If it is a certificate in DER, convert it to PEM with openssl x509 -inform der, "
            f"and set {type_option}=PEM.",
        )
    if declared is StoreType.PEM:
        if detected is None:
            return StoreType.PEM
        raise ConfigError(
            f"option {option} refers to a {detected.value} file, but {type_option} is PEM",
            hint=f"Set {type_option}={detected.value}.",
        )
    if detected is not None:
        return detected
    raise ConfigError(
        f"option {option} refers to a file that is neither JKS nor PKCS12",
        hint=f"It is PEM: set {type_option}=PEM."
        if looks_pem
        else "Check the path, or copy the file again in binary mode.",
    )


def _detected_format(content: bytes) -> StoreType | None:
    if content.startswith(jks.MAGIC):
        return StoreType.JKS
    # The size between tag and version has one byte, or a count of bytes and these bytes.
    if content.startswith(_SEQUENCE) and content.find(_PKCS12_VERSION, 2, 9) > 0:
        return StoreType.PKCS12
    return None


def read_pkcs12(content: bytes, password: Secret | None, option: str) -> PKCS12KeyAndCertificates:
    """Read a PKCS12 store.

    Args:
        content: the whole file.
        password: password of the store and its key, which is the same in PKCS12.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is missing or wrong, or the file cannot be read.
    """
    secret = utf8_text(password).encode() if password is not None else None
    password_option = option.replace(".location", ".password")
    try:
        return pkcs12.load_pkcs12(content, secret)
    except UnsupportedAlgorithm as error:
        raise ConfigError(
            f"the PKCS12 store of option {option} uses unsupported encryption: {error}",
            hint="Recreate it with keytool -importkeystore of Java 17 or newer.",
        ) from error
    except ValueError as error:
        problem = "needs a password" if password is None else "cannot be opened"
        raise ConfigError(
            f"the PKCS12 store of option {option} {problem}",
            hint=f"Check {password_option}: it must be the password of the store and of its key."
            + (_OWN_KEY_HINT if "ssl.keystore.location" in option else ""),
        ) from error


def all_certificates(store: PKCS12KeyAndCertificates) -> list[bytes]:
    """Return every certificate of a store as DER."""
    key_certificates = [store.cert.certificate] if store.cert else []
    additional = [entry.certificate for entry in store.additional_certs]
    return [_der(certificate) for certificate in key_certificates + additional]


def certificate_chain(store: PKCS12KeyAndCertificates) -> tuple[bytes, ...]:
    """Return the key's certificate, followed by the certificates of its issuers in order.

    A store can contain certificates in any order, even certificates that are unrelated to the key.
    """
    if store.cert is None:
        return ()
    chain = [store.cert.certificate]
    candidates = [entry.certificate for entry in store.additional_certs]
    while issuer := _find_issuer(chain[-1], candidates):
        chain.append(issuer)
        candidates.remove(issuer)
    return tuple(_der(certificate) for certificate in chain)


def _find_issuer(
    certificate: x509.Certificate, candidates: list[x509.Certificate]
) -> x509.Certificate | None:
    if certificate.issuer == certificate.subject:
        return None
    return next((other for other in candidates if other.subject == certificate.issuer), None)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def open_jks(content: bytes, password: Secret | None, option: str) -> jks.JksStore:
    """Read a JKS store.

    Args:
        content: the whole file.
        password: password of the store; None to skip the integrity check, as Java does.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is wrong, or the file is damaged.
    """
    try:
        return jks.read_jks(content, utf8_text(password) if password is not None else None)
    except jks.JksPasswordError as error:
        raise ConfigError(
            f"the JKS store of option {option} cannot be opened",
            hint=f"{option.replace('.location', '.password')} is wrong, or the file is damaged.",
        ) from error
    except jks.JksFormatError as error:
        raise ConfigError(
            f"the JKS store of option {option} is damaged or truncated",
            hint="Copy it again in binary mode.",
        ) from error


def _key_password(option: str) -> str:
    """Return the option for the key's password, by the name of the option with the location."""
    return option.replace("ssl.keystore.location", "ssl.key.password")


def jks_private_key(key: jks.JksKey, password: Secret | None, option: str) -> PrivateKeyTypes:
    """Return the private key of an entry.

    Args:
        key: the entry.
        password: password of the key, which is the store's password by default.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the password is missing or wrong, or the key cannot be read.
    """
    if password is None:
        raise ConfigError(
            f"the private key in option {option} is encrypted, and no password is set for it",
            hint=f"Set {option.replace('.location', '.password')}, or "
            f"{_key_password(option)} if it differs.",
        )
    try:
        return serialization.load_der_private_key(key.decrypt(utf8_text(password)), None)
    except jks.JksPasswordError as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} cannot be decrypted with "
            f"{password.option}",
            hint="The password is wrong, or the key has a different password: set "
            f"{_key_password(option)}.",
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"the private key {key.alias!r} in option {option} has an unsupported type",
            hint="Convert the store with keytool -importkeystore -deststoretype pkcs12.",
        ) from error
