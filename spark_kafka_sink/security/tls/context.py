"""The ssl module's context for a client's connections."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import TlsVersion
from spark_kafka_sink.security.tls.identity import client_identity
from spark_kafka_sink.security.tls.private_keys import sealed
from spark_kafka_sink.security.tls.store_files import TRUSTSTORE_LOCATION
from spark_kafka_sink.security.tls.trust import trusted_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.security.model import TlsConfig, TrustStore
    from spark_kafka_sink.security.tls.identity import Identity

_VERSIONS = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}
_DESCRIPTORS = Path("/proc/self/fd")


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """A context for connections to brokers; the host's name is given as `server_hostname`.

    Raises:
        ConfigError: a store can't be read or does not open, on this host.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.check_hostname
    context.minimum_version = min(_VERSIONS[version] for version in config.protocols)
    context.maximum_version = max(_VERSIONS[version] for version in config.protocols)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _verify_as_java(context)
    _trust(context, config.truststore)
    if config.keystore is not None:
        _load_identity(context, client_identity(config.keystore))
    return context


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
    except ssl.SSLError as error:
        option = store.certificates.option if store.certificates else TRUSTSTORE_LOCATION
        raise ConfigError(
            f"option {option} holds a certificate that can't be read: {error.reason}"
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
        hint="RSA keys need 2048 bits, and signatures SHA-256, at OpenSSL's usual level.",
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
