"""Read keystores and truststores, from files or the values of options.

`client_identity` returns the client's certificate chain and private key, and `trusted_certificates`
returns the certificates of trusted authorities.
"""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_file
from spark_kafka_sink.config.security.security_config import (
    KeyStore,
    StoreType,
    TlsConfig,
    TrustStore,
)
from spark_kafka_sink.kafka.security.credentials import secrets_of
from spark_kafka_sink.kafka.security.tls.pem import PemBlock, pem_blocks, private_key
from spark_kafka_sink.kafka.security.tls.store_formats import (
    all_certificates,
    certificate_chain,
    jks_private_key,
    open_jks,
    read_pkcs12,
    store_format,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

    from spark_kafka_sink.kafka.security.tls import jks


def store_files(config: TlsConfig) -> tuple[str, ...]:
    """Return all files of a context, including files with secrets or the system's authorities."""
    stores = [store for store in (config.truststore, config.keystore) if store is not None]
    system = ssl.get_default_verify_paths().cafile if config.truststore is None else None
    inline = [secret.file for store in stores for secret in secrets_of(store)]
    return tuple(
        path
        for path in (system, *(trust_store.location for trust_store in stores), *inline)
        if path
    )


def can_read_store(store: TrustStore | KeyStore) -> bool:
    """Return True if this process can read the store and all of its secrets."""
    location = store.location
    can_be_read = location is None or os.access(location, os.R_OK)
    return can_be_read and all(secret.exists_on_host for secret in secrets_of(store))


def _read_store(location: str, option: str) -> bytes:
    """Read the bytes of a store.

    Args:
        location: an absolute path, or a path relative to this process's working directory.
        option: the full name of the option with the location.

    Raises:
        ConfigError: the file is missing or cannot be read by this process.
    """
    try:
        return Path(location).read_bytes()
    except ValueError:
        raise ConfigError(
            f"option {option} is not a path: it contains a NUL character",
            hint="Remove the character.",
        ) from None
    except OSError as error:
        # Without the cause, because it contains the location, which might be a secret.
        raise ConfigError(
            f"option {option} refers to {safe_file(location)}, which cannot be read on "
            f"{socket.gethostname()}: {error.strerror}",
            hint=_unreadable_hint(location, error),
        ) from None


def _unreadable_hint(location: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "Grant read permission to the user of Spark's driver and executors."
    if Path(location).is_absolute() and location in safe_file(location):
        return (
            "The file must be on the driver and on every executor: put it there, or ship it with "
            f"--files {location} and set the option to {Path(location).name}."
        )
    return (
        f"The file was not found in the working directory {Path.cwd()} or among the files that "
        "Spark ships: ship it with --files or spark.sparkContext.addFile, or set an absolute path."
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """A client's certificate chain and private key."""

    chain: tuple[bytes, ...] = field(repr=False)
    """Certificates as DER, starting with the client's own certificate."""
    key: PrivateKeyTypes = field(repr=False)
    """Private key of the first certificate."""
    option: str
    """The option that contains chain and key; shown in errors."""

    def chain_text(self) -> bytes:
        """Return the chain as PEM."""
        return "".join(map(ssl.DER_cert_to_PEM_cert, self.chain)).encode()


def client_identity(store: KeyStore) -> Identity:
    """Return the first certificate chain with a key in a keystore.

    Raises:
        ConfigError: the store cannot be read or opened, or contains no certificate or no key.
    """
    if store.location is None:
        return _inline_identity(store)
    content = _read_store(store.location, store.location_option)
    match store_format(content, store.type, store.location_option):
        case StoreType.PEM:
            blocks = pem_blocks(content.decode("latin-1"), store.location_option)
            return _pem_identity(blocks, store, store.location_option)
        case StoreType.PKCS12:
            return _pkcs12_identity(content, store)
        case StoreType.JKS:
            return _jks_identity(content, store)


def _pkcs12_identity(content: bytes, store: KeyStore) -> Identity:
    opened = read_pkcs12(content, store.password or store.key_password, store.location_option)
    if opened.key is None:
        raise _missing_content_error("private key", store.location_option)
    chain = certificate_chain(opened)
    if not chain:
        raise _missing_content_error("certificate", store.location_option)
    return Identity(chain, opened.key, store.location_option)


def _jks_identity(content: bytes, store: KeyStore) -> Identity:
    opened = open_jks(content, store.password, store.location_option)
    if not opened.keys:
        raise _missing_content_error("private key", store.location_option)
    entry = opened.keys[0]
    password = store.key_password or store.password
    return Identity(
        entry.chain, jks_private_key(entry, password, store.location_option), store.location_option
    )


def _inline_identity(store: KeyStore) -> Identity:
    if store.certificate_chain is None or store.key is None:
        raise ConfigError(
            "a keystore in options requires both kafka.ssl.keystore.certificate.chain and "
            "kafka.ssl.keystore.key",
            hint="Set both, or kafka.ssl.keystore.location.",
        )
    chain = pem_blocks(store.certificate_chain.reveal(), store.certificate_chain.option)
    key = pem_blocks(store.key.reveal(), store.key.option)
    certificates = [block for block in chain if block.is_certificate]
    if not certificates:
        raise _missing_content_error("certificate", store.certificate_chain.option)
    keys = [block for block in key if block.is_private_key]
    return _pem_identity(certificates + keys, store, store.key.option)


def _pem_identity(blocks: list[PemBlock], store: KeyStore, option: str) -> Identity:
    chain = tuple(block.data for block in blocks if block.is_certificate)
    keys = [block for block in blocks if block.is_private_key]
    if not chain:
        raise _missing_content_error("certificate", option)
    if not keys:
        raise _missing_content_error("private key", option)
    return Identity(chain, private_key(keys[0], store.key_password, option), option)


def _missing_content_error(content: str, option: str) -> ConfigError:
    return ConfigError(
        f"option {option} contains no {content}",
        hint="A keystore must contain the client's certificate chain and its private key.",
    )


def trusted_certificates(store: TrustStore) -> list[bytes]:
    """Return the certificates of a truststore as DER. The result is not empty.

    Raises:
        ConfigError: the store cannot be read or opened, or contains no certificate.
    """
    option = store.certificates.option if store.certificates else store.location_option
    entries = _read_truststore(store, option)
    if not entries:
        raise ConfigError(
            f"option {option} contains no certificate",
            hint="It must contain the certificates of the authorities that sign the brokers' "
            "certificates.",
        )
    return entries


def _read_truststore(store: TrustStore, option: str) -> list[bytes]:
    if store.certificates is not None:
        return _pem_certificates(store.certificates.reveal(), option)
    if store.location is None:
        raise ConfigError(
            "a truststore requires kafka.ssl.truststore.location or .certificates",
            hint="Set one of them.",
        )
    content = _read_store(store.location, option)
    match store_format(content, store.type, option):
        case StoreType.PEM:
            return _pem_certificates(content.decode("latin-1"), option)
        case StoreType.PKCS12:
            return all_certificates(read_pkcs12(content, store.password, option))
        case StoreType.JKS:
            return _jks_certificates(open_jks(content, store.password, option))


def _jks_certificates(store: jks.JksStore) -> list[bytes]:
    """Return the trusted certificates and each key's first certificate, as Java's PKIX does."""
    return [*store.certificates, *(key.chain[0] for key in store.keys if key.chain)]


def _pem_certificates(text: str, option: str) -> list[bytes]:
    return [block.data for block in pem_blocks(text, option) if block.is_certificate]
