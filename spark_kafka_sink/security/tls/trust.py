"""Whom the client believes: the certificates of a truststore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import StoreType
from spark_kafka_sink.security.tls.java_stores import opened_jks
from spark_kafka_sink.security.tls.pem import pem_blocks
from spark_kafka_sink.security.tls.pkcs12 import all_certificates, read_pkcs12
from spark_kafka_sink.security.tls.store_files import TRUSTSTORE_LOCATION, read_store
from spark_kafka_sink.security.tls.store_format import store_format

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import TrustStore
    from spark_kafka_sink.security.tls.jks import JksStore


def trusted_certificates(store: TrustStore) -> list[bytes]:
    """The certificates, each as DER; at least one.

    Raises:
        ConfigError: the store can't be read, does not open, or holds no certificate.
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
    """Those of trusted entries, and of each key its own certificate, as Java's PKIX has it."""
    return [*store.certificates, *(key.chain[0] for key in store.keys if key.chain)]


def _pem_certificates(text: str, option: str) -> list[bytes]:
    return [block.data for block in pem_blocks(text, option) if block.is_certificate]
