"""The ssl module's context for a client's connections."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown_name
from spark_kafka_sink.config.security.model import TlsVersion
from spark_kafka_sink.security.tls.ciphers import TLS_1_3_SUITES, cipher_suites
from spark_kafka_sink.security.tls.client_ssl import ClientSslContext
from spark_kafka_sink.security.tls.identity import client_identity
from spark_kafka_sink.security.tls.private_keys import sealed
from spark_kafka_sink.security.tls.store_files import TRUSTSTORE_LOCATION, is_here
from spark_kafka_sink.security.tls.trust import trusted_certificates
from spark_kafka_sink.security.tls.verification import WEAKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.security.model import TlsConfig, TrustStore
    from spark_kafka_sink.security.tls.ciphers import CipherSuites
    from spark_kafka_sink.security.tls.identity import Identity

_VERSIONS = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}
_NEVER = "!aNULL:!eNULL"
"""Suites without a certificate or without encryption, whoever names them."""
_LEVELS = frozenset("012345")
_USUAL_LEVEL = 2
_logger = logging.getLogger(__name__)
_DESCRIPTORS = Path("/proc/self/fd")


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """A context for connections to brokers; the host's name is given as `server_hostname`.

    Raises:
        ConfigError: a store can't be read or does not open, on this host.
    """
    context = _without_stores(config)
    _trust(context, config.truststore)
    if config.keystore is not None:
        _load_identity(context, client_identity(config.keystore))
    return context


def check_stores(config: TlsConfig) -> None:
    """Find on the driver what would fail every task; stores that are on executors alone may be.

    Raises:
        ConfigError: a store that this process can read does not open, or the suites fit no version.
    """
    context = _without_stores(config)
    if config.truststore is not None and is_here(config.truststore):
        _trust(context, config.truststore)
    if config.keystore is not None and is_here(config.keystore):
        _load_identity(context, client_identity(config.keystore))


def _without_stores(config: TlsConfig) -> ClientSslContext:
    context = ClientSslContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.check_hostname
    context.options |= ssl.OP_NO_RENEGOTIATION
    suites = cipher_suites(config.cipher_suites)
    _limit_versions(context, config.protocols, suites)
    _limit_suites(context, suites)
    _verify_as_java(context)
    return context


def _limit_versions(
    context: ClientSslContext, protocols: tuple[TlsVersion, ...], suites: CipherSuites
) -> None:
    """A version for which no suite is named is not spoken, as in Java."""
    named = {TlsVersion.TLS_1_2: suites.tls_1_2, TlsVersion.TLS_1_3: suites.tls_1_3}
    spoken = [version for version in protocols if named[version] or not any(named.values())]
    if not spoken:
        raise ConfigError(
            "none of the suites in kafka.ssl.cipher.suites belongs to a version in "
            "kafka.ssl.enabled.protocols",
            hint="TLS_AES_* and TLS_CHACHA20_POLY1305_SHA256 are TLS 1.3's, all others TLS 1.2's.",
        )
    context.minimum_version = min(_VERSIONS[version] for version in spoken)
    context.maximum_version = max(_VERSIONS[version] for version in spoken)


def _limit_suites(context: ClientSslContext, suites: CipherSuites) -> None:
    context.tls_1_3_suites = suites.tls_1_3
    names = suites.tls_1_2
    if suites.level is not None:
        _check_level(suites.level)
        names = (*(names or _usual_suites(context)), f"@SECLEVEL={suites.level}")
    if not names:
        return
    try:
        context.set_ciphers(":".join([*names, _NEVER]))
    except ssl.SSLError as error:
        raise ConfigError(
            "OpenSSL knows none of the suites in kafka.ssl.cipher.suites: "
            f"{', '.join(map(shown_name, suites.tls_1_2))}",
            hint="Name suites as Java does, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384.",
        ) from error


def _check_level(level: str) -> None:
    if level not in _LEVELS:
        raise ConfigError(
            "kafka.ssl.cipher.suites has @SECLEVEL= with something else than 0 to 5 behind it",
            hint="1 takes RSA keys of 1,024 bits, 0 also signatures by SHA-1.",
        )
    if int(level) < _USUAL_LEVEL:
        warn_level(level)


@cache
def warn_level(level: str) -> None:
    """Say once per process that the user takes what is not safe any more."""
    _logger.warning("kafka.ssl.cipher.suites lowers OpenSSL's level of security to %s", level)


def _usual_suites(context: ssl.SSLContext) -> tuple[str, ...]:
    """Python's own choice, by name; TLS 1.3's can't be chosen."""
    return tuple(
        suite["name"] for suite in context.get_ciphers() if suite["name"] not in TLS_1_3_SUITES
    )


def _verify_as_java(context: ssl.SSLContext) -> None:
    """Any trusted certificate ends a chain; RFC 5280's strictest rules are not asked for."""
    flags = context.verify_flags | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags = flags & ~ssl.VerifyFlags.VERIFY_X509_STRICT


def _trust(context: ssl.SSLContext, store: TrustStore | None) -> None:
    if store is None:
        _trust_system(context)
        return
    try:
        context.load_verify_locations(cadata=b"".join(trusted_certificates(store)))
    except (ssl.SSLError, ValueError) as error:
        option = store.certificates.option if store.certificates else TRUSTSTORE_LOCATION
        reason = getattr(error, "reason", None) or error.args[-1]  # OpenSSL has a word for some
        raise ConfigError(
            f"option {option} holds a certificate that can't be read: {reason}"
        ) from error


def _trust_system(context: ssl.SSLContext) -> None:
    paths = ssl.get_default_verify_paths()
    if os.name == "posix" and not (paths.cafile or paths.capath):
        raise ConfigError(
            f"there are no certificate authorities of the system on {socket.gethostname()}",
            hint=f"Install ca-certificates there, or set {TRUSTSTORE_LOCATION}.",
        )
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    key, passphrase = sealed(identity.key)
    try:
        with _short_lived_file(identity.chain_text() + key) as path:
            context.load_cert_chain(path, password=passphrase)
    except ssl.SSLError as error:
        raise _refused_identity(error, identity.option) from error


def _refused_identity(error: ssl.SSLError, option: str) -> ConfigError:
    if error.reason == "KEY_VALUES_MISMATCH":
        return ConfigError(
            f"the private key in option {option} does not belong to the first certificate",
            hint="The client's own certificate comes first, those of its authorities after it.",
        )
    return ConfigError(
        f"OpenSSL does not take the client's certificate in option {option}: {error.reason}",
        hint="At OpenSSL's usual level RSA keys need 2048 bits, and signatures SHA-256. Until "
        f"then: {WEAKER}",
    )


@contextmanager
def _short_lived_file(content: bytes) -> Iterator[str]:
    """A path to the content, which is in memory where the system can, else in a file of 0600."""
    if hasattr(os, "memfd_create") and _DESCRIPTORS.is_dir():
        descriptor = os.memfd_create("client-certificate")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield str(_DESCRIPTORS / str(descriptor))
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(content)
        yield str(path)
