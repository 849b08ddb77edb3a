"""TLS of the listeners: the server's certificate in PEM files, and the principals of clients."""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
import weakref
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509

from spark_kafka_sink.broker.security.certificate_authority import LIFETIME, CertificateAuthority
from spark_kafka_sink.broker.security.settings import ClientAuth, TlsFiles, reveal_secret
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class _PemFiles:
    """A folder for PEM files that only its owner can read. It is deleted with this object.

    Raises:
        ConfigError: no temporary directory is writable.
    """

    def __init__(self) -> None:
        self._pairs = count()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="kafkaprod-broker-"))
        except OSError as error:
            raise ConfigError(
                f"the broker's certificates cannot be written: {error.strerror}",
                hint="Set TMPDIR to a directory that is writable.",
            ) from error
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def write(self, name: str, text: str) -> Path:
        """Write a file that only its owner can read, and return its path."""
        path = self._folder / name
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def write_pair(self, certificate: str, key: str) -> tuple[Path, Path]:
        """Write a certificate and its key to new files, and return their paths."""
        name = f"pair-{next(self._pairs)}"
        return self.write(f"{name}.crt", certificate), self.write(f"{name}.key", key)


class ServerTls:
    """The server's certificate, and the authority that clients must trust.

    Any thread can replace the TLS context, which is used for new connections. Open connections
    continue to use the context with which they started.

    Args:
        files: files of a certificate, or None to create a certificate.
        hosts: host names and addresses of certificates that the broker creates.
        client_auth: specifies whether clients need certificates.

    Raises:
        ConfigError: a file cannot be read, or has the wrong content.
    """

    def __init__(
        self, files: TlsFiles | None, hosts: Iterable[str], client_auth: ClientAuth
    ) -> None:
        self.authority = CertificateAuthority()
        """Signs the certificates of clients. Also signs the server's certificate unless files are
        given.
        """
        self.files = _PemFiles()
        self._client_auth = client_auth
        self.hosts = tuple(hosts)
        if files is None:
            self.issue(self.hosts)
        else:
            self.use(files)

    def issue(self, hosts: Iterable[str], expires_in: timedelta = LIFETIME) -> None:
        """Issue a server certificate and use it for new connections."""
        issued = self.authority.server(hosts, expires_in)
        certificate, key = self.files.write_pair(issued.certificate, issued.key)
        ca_certificate = self.authority.certificate
        context = self._new_context(ca_certificate)
        context.load_cert_chain(certificate, key)
        self.context = context
        self.ca_certificate = ca_certificate

    def use(self, files: TlsFiles) -> None:
        """Load a server certificate from files and use it for new connections.

        Raises:
            ConfigError: a file cannot be read, or has the wrong content.
        """
        trusted = _read_pem(files.ca)
        clients = _read_pem(files.client_ca or files.ca)
        context = self._new_context(clients + self.authority.certificate)
        password = None
        if files.key_password is not None:
            password = reveal_secret(Secret(files.key_password, "key_password"))
        try:
            context.load_cert_chain(files.certificate, files.key, password=password or "")
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the broker's certificate {files.certificate} cannot be used with the key "
                f"{files.key}: {error}",
                hint="Both must be matching PEM files; set key_password if the key is encrypted.",
            ) from None
        self.context = context
        self.ca_certificate = trusted

    def _new_context(self, client_authorities: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.verify_mode = _VERIFY[self._client_auth]
        if self._client_auth is not ClientAuth.NONE:
            try:
                context.load_verify_locations(cadata=client_authorities)
            except ssl.SSLError as error:
                raise ConfigError(
                    f"the client CA certificates cannot be read: {error}",
                    hint="Set client_ca (or ca) to a PEM file of certificates.",
                ) from None
        return context


def _read_pem(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the broker's PEM file {path} cannot be read: {error}", hint="Check the path."
        ) from None


def peer_principal(certificate: bytes | None) -> str | None:
    """Return Kafka's principal name for a client's DER certificate, or None without one."""
    if certificate is None:
        return None
    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
