"""TLS of the listeners, a certificate authority for tests (RFC 5280), and PEM files.

Keys use the curve P-256, which all clients support and which is fast. Generating or using a key
takes a fraction of a millisecond.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import ssl
import tempfile
import weakref
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spark_kafka_sink.broker.security.settings import ClientAuth, TlsFiles, reveal_secret
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable

LIFETIME = timedelta(days=365)
_SKEW = timedelta(days=1)
"""Time before its creation from which a certificate is valid, because clients' clocks can be slow.
"""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate and its unencrypted private key (PKCS#8), both as PEM text."""

    certificate: str
    key: str = field(repr=False)


class CertificateAuthority:
    """Signs certificates of servers and clients.

    Args:
        name: the authority's common name.
    """

    def __init__(self, name: str = "kafkaprod test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        builder = _certificate_builder(
            self._key, name, now - _SKEW, now + 10 * LIFETIME, is_authority=True
        )
        builder = builder.issuer_name(common_name(name))
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> str:
        """The authority's own certificate as PEM text."""
        return pem(self._certificate)

    def server(self, hosts: Iterable[str], expires_in: timedelta = LIFETIME) -> Certificate:
        """Issue a server certificate for names and addresses, expired if `expires_in` < 0."""
        names = x509.SubjectAlternativeName(list(map(general_name, hosts)))
        common = "kafkaprod embedded broker"
        return self._issue_certificate(common, ExtendedKeyUsageOID.SERVER_AUTH, expires_in, names)

    def client(self, name: str, expires_in: timedelta = LIFETIME) -> Certificate:
        """Issue a client certificate. The principal is User:CN=`name`."""
        return self._issue_certificate(name, ExtendedKeyUsageOID.CLIENT_AUTH, expires_in, None)

    def _issue_certificate(
        self,
        name: str,
        purpose: x509.ObjectIdentifier,
        expires_in: timedelta,
        names: x509.SubjectAlternativeName | None,
    ) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        until = datetime.now(UTC) + expires_in
        start = min(datetime.now(UTC), until) - _SKEW
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _certificate_builder(key, name, start, until, is_authority=False)
            .issuer_name(self._certificate.subject)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(authority, critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Certificate(
            certificate=pem(builder.sign(self._key, hashes.SHA256())), key=_private_pem(key)
        )


def _certificate_builder(
    key: ec.EllipticCurvePrivateKey,
    name: str,
    start: datetime,
    end: datetime,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    """Return a builder with the fields that all certificates share."""
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    return (
        x509.CertificateBuilder()
        .subject_name(common_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(constraints, critical=True)
        .add_extension(key_usage(signs_certificates=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def peer_principal(certificate: bytes | None) -> str | None:
    """Return Kafka's principal name for a client's DER certificate, or None without one."""
    if certificate is None:
        return None
    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()


def common_name(name: str) -> x509.Name:
    """Return a distinguished name that contains only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def general_name(host: str) -> x509.GeneralName:
    """Return a host name or an IP address as a subjectAltName entry."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host if host.isascii() else host.encode("idna").decode())


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage extension of an authority, or of a server or client."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def pem(certificate: x509.Certificate) -> str:
    """Return a certificate as PEM text."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


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
