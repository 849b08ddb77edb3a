"""Build a `TlsConfig` from the ssl.* options, by the rules of Java's DefaultSslEngineFactory."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.common.secret import FILE, Secret
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.config.security.security_config import (
    KeyStore,
    StoreType,
    TlsConfig,
    TlsVersion,
    TrustStore,
)

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_values import SecurityValues

_OLD_VERSIONS = frozenset({"SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})
"""Versions that Java recognizes but has disabled (RFC 8996)."""
_USUAL_PROTOCOLS = frozenset({"", "TLS", "TLSV1.3"})
"""Values of ssl.protocol that match what happens without it."""
_PROBE = "probe"
"""librdkafka's value for the system's certificate authorities."""
_SEPARATORS = re.compile(r"[,:\s]+")
_LOG = logging.getLogger(__name__)


def tls_config(values: SecurityValues) -> TlsConfig:
    """Build the settings of a TLS connection.

    Raises:
        ConfigError: options contradict each other, or a required option is missing.
    """
    if not values.flag("enable.ssl.certificate.verification"):
        raise ConfigError(
            f"option {values.name('enable.ssl.certificate.verification')} is false, which would "
            "let any server impersonate the broker",
            hint="Set the broker's certificate authority: kafka.ssl.truststore.location, or "
            "kafka.ssl.truststore.certificates for PEM text.",
        )
    if (values.text("ssl.protocol") or "").upper() not in _USUAL_PROTOCOLS:
        warn_once(
            _LOG,
            "Option %s has no effect: ssl.enabled.protocols selects the TLS versions",
            values.name("ssl.protocol"),
        )
    identification = values.text("ssl.endpoint.identification.algorithm")
    return TlsConfig(
        truststore=_parse_truststore(values),
        keystore=_parse_keystore(values),
        protocols=_enabled_protocols(values),
        cipher_suites=_cipher_suites(values),
        check_hostname=identification == "https",
    )


def _parse_truststore(values: SecurityValues) -> TrustStore | None:
    _at_most_one(
        values, "ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location"
    )
    location = values.path("ssl.truststore.location")
    certificates = values.secret("ssl.truststore.certificates") or ca_file(
        values, "ssl.ca.location"
    )
    password = values.secret("ssl.truststore.password")
    store_type = _store_type(values, "ssl.truststore.type", pem=certificates is not None)
    if certificates is not None and store_type is not StoreType.PEM:
        raise _needs_pem(values, certificates, "ssl.truststore.type")
    if store_type is StoreType.PEM and password is not None:
        raise _unexpected_password(values, "ssl.truststore.password")
    if location is None and certificates is None:
        if password is not None:
            raise _missing_option(values, "ssl.truststore.password", "ssl.truststore.location")
        return None
    return TrustStore(
        type=store_type,
        location=location,
        certificates=certificates,
        password=password,
        location_option=values.name("ssl.truststore.location"),
    )


def ca_file(values: SecurityValues, option: str) -> Secret | None:
    """Return the file with certificate authorities, or None for the system's authorities."""
    path = values.path(option)
    return None if path in (None, _PROBE) else Secret(f"{FILE}{path}", values.name(option))


def _parse_keystore(values: SecurityValues) -> KeyStore | None:
    chain = _pem_secret(values, "ssl.keystore.certificate.chain", "ssl.certificate.location")
    key = _pem_secret(values, "ssl.keystore.key", "ssl.key.location")
    if chain is not None or key is not None:
        return _inline_keystore(values, chain, key)
    location = values.path("ssl.keystore.location")
    password = values.secret("ssl.keystore.password")
    if location is None:
        if password is not None:
            raise _missing_option(values, "ssl.keystore.password", "ssl.keystore.location")
        return None
    store_type = _store_type(values, "ssl.keystore.type", pem=False)
    if store_type is StoreType.PEM and password is not None:
        raise _unexpected_password(values, "ssl.keystore.password", "ssl.key.password")
    if store_type is not StoreType.PEM and password is None:
        raise ConfigError(
            f"option {values.name('ssl.keystore.location')} refers to a {store_type.value} file, "
            f"which requires {values.name('ssl.keystore.password')}",
            hint="If it is a PEM file, which needs no password, set "
            f"{values.name('ssl.keystore.type')} to PEM.",
        )
    return KeyStore(
        type=store_type,
        location=location,
        password=password,
        key_password=values.secret("ssl.key.password"),
        location_option=values.name("ssl.keystore.location"),
    )


def _inline_keystore(values: SecurityValues, chain: Secret | None, key: Secret | None) -> KeyStore:
    """Build a keystore from the options for the certificate chain and the key.

    Both options are required.
    """
    chain_option, key_option = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    if values.is_set("ssl.certificate.location") or values.is_set("ssl.key.location"):
        chain_option, key_option = "ssl.certificate.location", "ssl.key.location"
    if key is None:
        raise _missing_option(values, chain_option, key_option)
    if chain is None:
        raise _missing_option(values, key_option, chain_option)
    _at_most_one(values, "ssl.keystore.location", "ssl.keystore.key", "ssl.key.location")
    if _store_type(values, "ssl.keystore.type", pem=True) is not StoreType.PEM:
        raise _needs_pem(values, key, "ssl.keystore.type")
    if values.is_set("ssl.keystore.password"):
        raise _unexpected_password(values, "ssl.keystore.password", "ssl.key.password")
    return KeyStore(
        type=StoreType.PEM,
        certificate_chain=chain,
        key=key,
        key_password=values.secret("ssl.key.password"),
    )


def _pem_secret(values: SecurityValues, option: str, location_option: str) -> Secret | None:
    """Return PEM text from an option, or a reference to the file in librdkafka's option."""
    _at_most_one(values, option, location_option)
    path = values.path(location_option)
    if path is None:
        return values.secret(option)
    return Secret(f"{FILE}{path}", values.name(location_option))


def _store_type(values: SecurityValues, option: str, *, pem: bool) -> StoreType:
    """Return the configured type.

    The default is PEM if only PEM is possible, otherwise Java's default.
    """
    if pem and not values.is_set(option):
        return StoreType.PEM
    return StoreType(values.text(option) or StoreType.JKS.value)


def _enabled_protocols(values: SecurityValues) -> tuple[TlsVersion, ...]:
    option = "ssl.enabled.protocols"
    if values.text(option) is None:
        return TlsConfig().protocols
    known = {version.value: version for version in TlsVersion}
    names = [name.strip() for name in (values.text(option) or "").split(",") if name.strip()]
    for name in names:
        if name not in known and name not in _OLD_VERSIONS:
            raise ConfigError(
                f"option {values.name(option)} contains {safe_repr(name)}; allowed: "
                f"{', '.join(known)}",
                hint=did_you_mean(name, known),
            )
    versions = tuple(version for version in TlsVersion if version.value in names)
    if not versions:
        raise ConfigError(
            f"option {values.name(option)} contains no secure TLS version: {', '.join(names)}",
            hint="Add TLSv1.2 or TLSv1.3; the broker must also support one of them.",
        )
    for name in names:
        if name in _OLD_VERSIONS:
            warn_once(_LOG, "Option %s: %s is insecure and not offered", values.name(option), name)
    return versions


def _cipher_suites(values: SecurityValues) -> tuple[str, ...]:
    """Return the cipher suites, which are separated by commas (Java) or colons (OpenSSL)."""
    return tuple(name for name in _SEPARATORS.split(values.text("ssl.cipher.suites") or "") if name)


def _at_most_one(values: SecurityValues, *options: str) -> None:
    set_names = [values.name(option) for option in options if values.is_set(option)]
    if len(set_names) > 1:
        raise ConfigError(
            f"options {' and '.join(set_names)} are mutually exclusive",
            hint="They have the same meaning: remove one of them.",
        )


def _needs_pem(values: SecurityValues, secret: Secret, store_type: str) -> ConfigError:
    return ConfigError(
        f"option {secret.option} contains PEM text, but {values.name(store_type)} is "
        f"{values.text(store_type)}",
        hint=f"Set {values.name(store_type)} to PEM.",
    )


def _unexpected_password(
    values: SecurityValues, option: str, other: str | None = None
) -> ConfigError:
    instead = "" if other is None else f" For an encrypted key use {values.name(other)}."
    return ConfigError(
        f"option {values.name(option)} is set, but PEM files have no such password",
        hint=f"Remove it.{instead}",
    )


def _missing_option(values: SecurityValues, option: str, missing: str) -> ConfigError:
    return ConfigError(
        f"option {values.name(option)} is set without {values.name(missing)}",
        hint="Set both or neither.",
    )
