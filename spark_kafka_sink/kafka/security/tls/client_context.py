"""The TLS context of a client, and the checks after its handshakes.

Python's ssl cannot select the cipher suites of TLS 1.3, so the negotiated suite is
checked before any Kafka data is sent. A verification error contains the broker's certificate, so
that the error message can list the names for which it is valid.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_file, safe_name
from spark_kafka_sink.config.security.security_config import (
    TRUSTSTORE_LOCATION,
    TlsConfig,
    TlsVersion,
    TrustStore,
)
from spark_kafka_sink.kafka.security.tls import stores
from spark_kafka_sink.kafka.security.tls.cipher_suites import (
    TLS_1_3_SUITES,
    CipherSuites,
    cipher_suites,
)
from spark_kafka_sink.kafka.security.tls.pem import encrypt_private_key
from spark_kafka_sink.kafka.security.tls.stores import client_identity

if TYPE_CHECKING:
    from collections.abc import Iterator


WEAKER = (
    "kafka.ssl.cipher.suites=@SECLEVEL=1 accepts keys of 1024 bits; @SECLEVEL=0 also accepts SHA-1."
)
"""How to accept keys and signatures that Java accepts and OpenSSL rejects. Never a default."""
_VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}
_NEVER = "!aNULL:!eNULL"
"""Excludes cipher suites without authentication or encryption."""
_LEVELS = frozenset("012345")
_DEFAULT_LEVEL = 2
_LOG = logging.getLogger(__name__)
_DESCRIPTORS = Path("/proc/self/fd")


class PeerCertificateError(ssl.SSLCertVerificationError):
    """The broker's certificate was rejected."""

    certificate: bytes | None = None
    """The certificate as DER. None if the broker sent no certificate, or if Python does not provide
    it.
    """


class CipherSuiteError(ssl.SSLError):
    """The broker selected a suite that is not in ssl.cipher.suites."""


class ClientSslObject(ssl.SSLObject):
    """A TLS connection, created by `ClientSslContext.wrap_bio`."""

    def do_handshake(self) -> None:
        """Continue the handshake.

        Raises:
            ssl.SSLWantReadError: more bytes from the broker are needed.
            PeerCertificateError: the broker's certificate is rejected.
            CipherSuiteError: the broker selected a suite that the options do not allow.
            ssl.SSLError: any other failure.
        """
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise _with_certificate(error, self) from error
        agreed = self.cipher()
        allowed = getattr(self.context, "tls_1_3_suites", None)
        if allowed and agreed and agreed[1] == "TLSv1.3" and agreed[0] not in allowed:
            raise CipherSuiteError(1, f"the broker chose {agreed[0]}")


class ClientSslContext(ssl.SSLContext):
    """A context whose connections are `ClientSslObject`s."""

    sslobject_class = ClientSslObject
    tls_1_3_suites: frozenset[str] = frozenset()
    """The allowed TLS 1.3 suites; empty if all are allowed."""


def _with_certificate(
    error: ssl.SSLCertVerificationError, connection: ssl.SSLObject
) -> PeerCertificateError:
    detailed = PeerCertificateError(*error.args)
    detailed.reason = error.reason
    detailed.library = error.library
    detailed.verify_code = error.verify_code
    detailed.verify_message = error.verify_message
    detailed.certificate = _peer_certificate(connection)
    return detailed


def _peer_certificate(connection: ssl.SSLObject) -> bytes | None:
    """Return the certificate of a failed handshake, which getpeercert() does not return.

    get_unverified_chain has been public since Python 3.13, where it returns bytes.
    """
    public = getattr(connection, "get_unverified_chain", None)
    if public is not None:
        return next(iter(public()), None)
    inner: Any = getattr(connection, "_sslobj", None)
    chain = inner.get_unverified_chain() if hasattr(inner, "get_unverified_chain") else None
    if not chain:
        return None
    return ssl.PEM_cert_to_DER_cert(chain[0].public_bytes())


def _create_context(config: TlsConfig) -> ClientSslContext:
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
    """Disable versions for which no suite is selected, as in Java."""
    names = {TlsVersion.TLS_1_2: suites.tls_1_2, TlsVersion.TLS_1_3: suites.tls_1_3}
    enabled = [version for version in protocols if names[version] or not any(names.values())]
    if not enabled:
        raise ConfigError(
            "none of the suites in kafka.ssl.cipher.suites belongs to a version in "
            "kafka.ssl.enabled.protocols",
            hint="TLS_AES_* and TLS_CHACHA20_POLY1305_SHA256 belong to TLS 1.3, all other suites "
            "to TLS 1.2.",
        )
    context.minimum_version = min(_VERSIONS[version] for version in enabled)
    context.maximum_version = max(_VERSIONS[version] for version in enabled)


def _limit_suites(context: ClientSslContext, suites: CipherSuites) -> None:
    context.tls_1_3_suites = suites.tls_1_3
    names = suites.tls_1_2
    if suites.level is not None:
        _check_level(suites.level)
        names = (*(names or _default_suites(context)), f"@SECLEVEL={suites.level}")
    if not names:
        return
    try:
        context.set_ciphers(":".join([*names, _NEVER]))
    except ssl.SSLError as error:
        raise ConfigError(
            "OpenSSL supports none of the suites in kafka.ssl.cipher.suites: "
            f"{', '.join(map(safe_name, suites.tls_1_2))}",
            hint="Use Java's names, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384.",
        ) from error


def _check_level(level: str) -> None:
    if level not in _LEVELS:
        raise ConfigError(
            "kafka.ssl.cipher.suites has an @SECLEVEL other than 0 to 5",
            hint="Level 1 accepts RSA keys of 1,024 bits; level 0 also accepts SHA-1 signatures.",
        )
    if int(level) < _DEFAULT_LEVEL:
        warn_level(level)


@cache
def warn_level(level: str) -> None:
    """Warn once per process if the user's options lower the security level."""
    _LOG.warning("kafka.ssl.cipher.suites lowers OpenSSL's security level to %s", level)


def _default_suites(context: ssl.SSLContext) -> tuple[str, ...]:
    """Return the names of Python's default suites, except the TLS 1.3 suites."""
    return tuple(
        suite["name"] for suite in context.get_ciphers() if suite["name"] not in TLS_1_3_SUITES
    )


def _verify_as_java(context: ssl.SSLContext) -> None:
    """Verify like Java: any trusted certificate can end a chain, and X509_STRICT is disabled."""
    flags = context.verify_flags | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags = flags & ~ssl.VerifyFlags.VERIFY_X509_STRICT


def _load_trust_store(context: ssl.SSLContext, store: TrustStore | None) -> None:
    if store is None:
        _trust_system(context)
        return
    try:
        context.load_verify_locations(cadata=b"".join(stores.trusted_certificates(store)))
    except (ssl.SSLError, ValueError) as error:
        option = store.certificates.option if store.certificates else store.location_option
        reason = getattr(error, "reason", None) or error.args[-1]  # OpenSSL's reason can be None.
        raise ConfigError(
            f"option {option} contains a certificate that cannot be read: {reason}",
            hint="Check the certificates with openssl x509, and create this one again.",
        ) from error


def _trust_system(context: ssl.SSLContext) -> None:
    paths = ssl.get_default_verify_paths()
    if os.name == "posix" and not (paths.cafile or paths.capath):
        raise ConfigError(
            f"the operating system has no certificate authorities on {socket.gethostname()}"
            + system_authorities_note(),
            hint=f"Install ca-certificates there, or set {TRUSTSTORE_LOCATION}.",
        )
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def system_authorities_note() -> str:
    """Return a note that names the environment variables that replace the system's authorities."""
    paths = ssl.get_default_verify_paths()
    kinds = {paths.openssl_cafile_env: "file", paths.openssl_capath_env: "folder"}
    values = {name: os.environ[name] for name in kinds if name in os.environ}
    return "".join(
        f"; the environment variable {name} is {safe_file(path, kinds[name]) if path else 'empty'}"
        for name, path in values.items()
    )


def _load_identity(context: ssl.SSLContext, identity: stores.Identity) -> None:
    key, passphrase = encrypt_private_key(identity.key)
    try:
        with short_lived_file(identity.chain_text() + key) as path:
            context.load_cert_chain(path, password=passphrase)
    except ssl.SSLError as error:
        raise _rejected_identity(error, identity.option) from error
    except OSError as error:  # The system has no memory files, and no directory is writable.
        raise ConfigError(
            f"the client's certificate in option {identity.option} cannot be passed to OpenSSL on "
            f"{socket.gethostname()}: {error.strerror}",
            hint="Set TMPDIR to a directory that is writable, or allow memfd_create.",
        ) from error


def _rejected_identity(error: ssl.SSLError, option: str) -> ConfigError:
    if error.reason == "KEY_VALUES_MISMATCH":
        return ConfigError(
            f"the private key in option {option} does not belong to the first certificate",
            hint="The client's own certificate must come first, before its authorities' "
            "certificates.",
        )
    return ConfigError(
        f"OpenSSL rejects the client's certificate in option {option}: {error.reason}",
        hint="OpenSSL's default security level requires RSA keys of 2048 bits and SHA-256 "
        f"signatures. As a workaround: {WEAKER}",
    )


@contextmanager
def short_lived_file(content: bytes) -> Iterator[str]:
    """Yield the path of a temporary file with this content.

    The file is in memory if the system supports this, or else on disk with mode 0600.
    """
    descriptor = _memory_file()
    if descriptor is None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield str(_DESCRIPTORS / str(descriptor))
    finally:
        os.close(descriptor)


def _memory_file() -> int | None:
    """Create a file in memory, or return None if the system has none or does not allow it."""
    if not hasattr(os, "memfd_create") or not _DESCRIPTORS.is_dir():
        return None
    try:
        return os.memfd_create("client-certificate")
    except OSError:  # seccomp, or vm.memfd_noexec=2
        return None


def create_client_context(config: TlsConfig) -> ssl.SSLContext:
    """Create a context for connections to brokers; callers pass the host name to `wrap_bio`.

    Raises:
        ConfigError: a store cannot be read or opened on this host.
    """
    context = _create_context(config)
    _load_trust_store(context, config.truststore)
    if config.keystore is not None:
        _load_identity(context, client_identity(config.keystore))
    return context


def check_stores(config: TlsConfig) -> None:
    """Check on the driver for problems that would fail every task.

    Stores that this process cannot read are not checked, because they might exist only on
    executors.

    Raises:
        ConfigError: a store that this process can read cannot be opened, or no cipher suite belongs
            to an enabled version.
    """
    context = _create_context(config)
    if config.truststore is not None and stores.can_read_store(config.truststore):
        _load_trust_store(context, config.truststore)
    if config.keystore is not None and stores.can_read_store(config.keystore):
        _load_identity(context, client_identity(config.keystore))
