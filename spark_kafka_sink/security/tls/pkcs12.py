"""Reads PKCS12 stores (RFC 7292), as keytool and openssl write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.security.credentials import utf8_text
from spark_kafka_sink.security.tls.store_files import KEYSTORE_LOCATION

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

    from spark_kafka_sink.common.secret import Secret


_OWN_KEY_HINT = (
    " A key whose password differs from the store's can't be read; keytool does not write such a "
    "store: have it written anew."
)


def read_pkcs12(content: bytes, password: Secret | None, option: str) -> PKCS12KeyAndCertificates:
    """Read a store.

    Args:
        content: the whole file.
        password: of the store and its key, which PKCS12 holds under one password.
        option: the full name of the location's option.

    Raises:
        ConfigError: the password is missing or wrong, or the file can't be read.
    """
    secret = utf8_text(password).encode() if password is not None else None
    password_option = option.replace(".location", ".password")
    try:
        return pkcs12.load_pkcs12(content, secret)
    except UnsupportedAlgorithm as error:
        raise ConfigError(
            f"the PKCS12 store of option {option} is encrypted in a way that can't be read: "
            f"{error}",
            hint="Write it anew with keytool -importkeystore of Java 17 or newer.",
        ) from error
    except ValueError as error:
        problem = "can't be opened without a password" if password is None else "does not open"
        raise ConfigError(
            f"the PKCS12 store of option {option} {problem}",
            hint=f"Look at {password_option}: it must open the store and the key in it."
            + (_OWN_KEY_HINT if option == KEYSTORE_LOCATION else ""),
        ) from error


def all_certificates(store: PKCS12KeyAndCertificates) -> list[bytes]:
    """Every certificate of a store, as DER."""
    own = [store.cert.certificate] if store.cert else []
    others = [entry.certificate for entry in store.additional_certs]
    return [_der(certificate) for certificate in own + others]


def certificate_chain(store: PKCS12KeyAndCertificates) -> tuple[bytes, ...]:
    """The key's certificate and its issuers, each after the one that it signed.

    A store holds certificates in any order, and some that have nothing to do with the key.
    """
    if store.cert is None:
        return ()
    chain = [store.cert.certificate]
    rest = [entry.certificate for entry in store.additional_certs]
    while issuer := _issuer(chain[-1], rest):
        chain.append(issuer)
        rest.remove(issuer)
    return tuple(_der(certificate) for certificate in chain)


def _issuer(
    certificate: x509.Certificate, others: list[x509.Certificate]
) -> x509.Certificate | None:
    if certificate.issuer == certificate.subject:
        return None
    return next((other for other in others if other.subject == certificate.issuer), None)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
