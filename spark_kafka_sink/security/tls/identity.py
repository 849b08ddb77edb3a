"""The client's certificate chain and private key, and the certificates it trusts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import StoreType
from spark_kafka_sink.security.credentials import utf8_text
from spark_kafka_sink.security.tls.stores import (
    KEYSTORE_LOCATION,
    TRUSTSTORE_LOCATION,
    PemBlock,
    all_certificates,
    certificate_chain,
    jks_private_key,
    opened_jks,
    pem_blocks,
    read_pkcs12,
    read_store,
    store_format,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.model import KeyStore, TrustStore
    from spark_kafka_sink.security.tls.stores import JksStore


def private_key(block: PemBlock, password: Secret | None, option: str) -> PrivateKeyTypes:
    """Load a private key from PEM: PKCS#1, PKCS#8 or SEC 1, encrypted or not.

    Args:
        block: PEM block with a private key.
        password: password of the key; ignored if the key is not encrypted.
        option: option that the key comes from, for errors.

    Raises:
        ConfigError: the password is missing or wrong, or the key cannot be read.
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
    """Return the key as encrypted PKCS#8 in PEM, and its passphrase, which is used only once."""
    passphrase = secrets.token_hex(32)
    encryption = serialization.BestAvailableEncryption(passphrase.encode())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return text, passphrase


@dataclass(frozen=True, slots=True)
class Identity:
    """A client's certificate chain and private key.

    Args:
        chain: certificates as DER, the client's own first.
        key: private key of the first certificate.
        option: option that they come from, for errors.
    """

    chain: tuple[bytes, ...] = field(repr=False)
    key: PrivateKeyTypes = field(repr=False)
    option: str

    def chain_text(self) -> bytes:
        """Return the chain as PEM."""
        return b"".join(PemBlock("CERTIFICATE", "", data).text() for data in self.chain)


def client_identity(store: KeyStore) -> Identity:
    """Return the first certificate chain with a key in a keystore.

    Raises:
        ConfigError: the store cannot be read or opened, or contains no certificate or no key.
    """
    if store.location is None:
        return _inline_identity(store)
    content = read_store(store.location, KEYSTORE_LOCATION)
    match store_format(content, store.type, KEYSTORE_LOCATION):
        case StoreType.PEM:
            blocks = pem_blocks(content.decode("latin-1"), KEYSTORE_LOCATION)
            return _pem_identity(blocks, store, KEYSTORE_LOCATION)
        case StoreType.PKCS12:
            return _pkcs12_identity(content, store)
        case StoreType.JKS:
            return _jks_identity(content, store)


def _pkcs12_identity(content: bytes, store: KeyStore) -> Identity:
    opened = read_pkcs12(content, store.password or store.key_password, KEYSTORE_LOCATION)
    if opened.key is None:
        raise _lacks("private key", KEYSTORE_LOCATION)
    chain = certificate_chain(opened)
    if not chain:
        raise _lacks("certificate", KEYSTORE_LOCATION)
    return Identity(chain, opened.key, KEYSTORE_LOCATION)


def _jks_identity(content: bytes, store: KeyStore) -> Identity:
    opened = opened_jks(content, store.password, KEYSTORE_LOCATION)
    if not opened.keys:
        raise _lacks("private key", KEYSTORE_LOCATION)
    entry = opened.keys[0]
    password = store.key_password or store.password
    return Identity(
        entry.chain, jks_private_key(entry, password, KEYSTORE_LOCATION), KEYSTORE_LOCATION
    )


def _inline_identity(store: KeyStore) -> Identity:
    if store.certificate_chain is None or store.key is None:
        raise ConfigError(
            "a keystore in options needs both kafka.ssl.keystore.certificate.chain and "
            "kafka.ssl.keystore.key"
        )
    chain = pem_blocks(store.certificate_chain.reveal(), store.certificate_chain.option)
    key = pem_blocks(store.key.reveal(), store.key.option)
    certificates = [block for block in chain if block.is_certificate]
    if not certificates:
        raise _lacks("certificate", store.certificate_chain.option)
    keys = [block for block in key if block.is_private_key]
    return _pem_identity(certificates + keys, store, store.key.option)


def _pem_identity(blocks: list[PemBlock], store: KeyStore, option: str) -> Identity:
    chain = tuple(block.data for block in blocks if block.is_certificate)
    keys = [block for block in blocks if block.is_private_key]
    if not chain:
        raise _lacks("certificate", option)
    if not keys:
        raise _lacks("private key", option)
    return Identity(chain, private_key(keys[0], store.key_password, option), option)


def _lacks(what: str, option: str) -> ConfigError:
    return ConfigError(
        f"option {option} holds no {what}",
        hint="A client's keystore holds its certificate chain and the private key of the first.",
    )


def trusted_certificates(store: TrustStore) -> list[bytes]:
    """Return the certificates of a truststore as DER, at least one.

    Raises:
        ConfigError: the store cannot be read or opened, or contains no certificate.
    """
    option = store.certificates.option if store.certificates else TRUSTSTORE_LOCATION
    found = _read(store, option)
    if not found:
        raise ConfigError(
            f"option {option} holds no certificate",
            hint="It must hold those of the authorities that sign the brokers' certificates.",
        )
    return found


def _read(store: TrustStore, option: str) -> list[bytes]:
    if store.certificates is not None:
        return _pem_certificates(store.certificates.reveal(), option)
    if store.location is None:
        raise ConfigError("a truststore needs kafka.ssl.truststore.location or .certificates")
    content = read_store(store.location, option)
    match store_format(content, store.type, option):
        case StoreType.PEM:
            return _pem_certificates(content.decode("latin-1"), option)
        case StoreType.PKCS12:
            return all_certificates(read_pkcs12(content, store.password, option))
        case StoreType.JKS:
            return _jks_certificates(opened_jks(content, store.password, option))


def _jks_certificates(store: JksStore) -> list[bytes]:
    """Return the trusted certificates, and the own certificate of each key, as Java's PKIX does."""
    return [*store.certificates, *(key.chain[0] for key in store.keys if key.chain)]


def _pem_certificates(text: str, option: str) -> list[bytes]:
    return [block.data for block in pem_blocks(text, option) if block.is_certificate]
