"""Who the client is: the certificate chain and the private key of a keystore."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import StoreType
from spark_kafka_sink.security.tls.java_stores import jks_private_key, opened_jks
from spark_kafka_sink.security.tls.pem import PemBlock, pem_blocks
from spark_kafka_sink.security.tls.pkcs12 import certificate_chain, read_pkcs12
from spark_kafka_sink.security.tls.private_keys import private_key
from spark_kafka_sink.security.tls.store_files import KEYSTORE_LOCATION, read_store
from spark_kafka_sink.security.tls.store_format import store_format

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from spark_kafka_sink.config.security.model import KeyStore


@dataclass(frozen=True, slots=True)
class Identity:
    """What a client shows and proves.

    Args:
        chain: certificates as DER, the client's own first.
        key: the private key that belongs to the first.
        option: where they come from, for errors.
    """

    chain: tuple[bytes, ...] = field(repr=False)
    key: PrivateKeyTypes = field(repr=False)
    option: str

    def chain_text(self) -> bytes:
        """The chain as PEM."""
        return b"".join(PemBlock("CERTIFICATE", "", data).text() for data in self.chain)


def client_identity(store: KeyStore) -> Identity:
    """The first certificate chain with a key of a keystore.

    Raises:
        ConfigError: the store can't be read, does not open, or lacks certificate or key.
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
