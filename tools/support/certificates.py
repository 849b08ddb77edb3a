"""Test certificates: an authority, and the server and client certificates that it signs.

authority = CertificateAuthority()
server = authority.server("localhost", "127.0.0.1")
server.write(folder)                      # folder/"server.pem": key and chain
authority.server("localhost", validity=EXPIRED)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from spark_kafka_sink.broker.security.certificate_authority import (
    common_name,
    general_name,
    key_usage,
    pem,
)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class KeyKind(Enum):
    EC = "EC"
    RSA = "RSA"
    SHORT_RSA = "RSA of 1,024 bits"

    def new_key(self) -> PrivateKey:
        match self:
            case KeyKind.EC:
                return ec.generate_private_key(ec.SECP256R1())
            case KeyKind.RSA:
                return rsa.generate_private_key(public_exponent=65537, key_size=2048)
            case KeyKind.SHORT_RSA:
                return rsa.generate_private_key(public_exponent=65537, key_size=1024)


@dataclass(frozen=True)
class Validity:
    """Validity period in days relative to today; negative days are in the past."""

    start: float
    end: float


VALID = Validity(-1, 365)
EXPIRED = Validity(-30, -1)
NOT_YET_VALID = Validity(1, 30)


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate with its key and the certificates of its issuers, up to the authority."""

    certificate: x509.Certificate
    key: PrivateKey
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def certificate_pem(self) -> str:
        return pem(self.certificate)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def chain_pem(self) -> str:
        """The certificate and those of its issuers, in the order in which a server sends them."""
        return "".join(map(pem, (self.certificate, *self.issuers)))

    def key_pem(self, password: str | None = None) -> str:
        """Return the key as PKCS#8; with a password, encrypt it with PBES2 and AES-256."""
        encryption = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    def write(self, folder: Path, name: str = "server", password: str | None = None) -> Path:
        """Write a PEM file with key and chain, for Kafka's PEM keystore and Python's ssl module."""
        path = folder / f"{name}.pem"
        path.write_text(self.key_pem(password) + self.chain_pem, encoding="utf-8")
        return path


class CertificateAuthority:
    """Signs certificates. Its own certificate is self-signed unless it has a parent."""

    def __init__(
        self,
        name: str = "Test Authority",
        kind: KeyKind = KeyKind.EC,
        parent: CertificateAuthority | None = None,
        validity: Validity = VALID,
        *,
        is_ca: bool = True,
    ) -> None:
        """Create an authority. If `is_ca` is False, its certificate has CA:FALSE."""
        self._kind = kind
        self._parent = parent
        key = kind.new_key()
        builder = _builder(common_name(name), key, validity).add_extension(
            x509.BasicConstraints(ca=is_ca, path_length=None), critical=True
        )
        if is_ca:
            builder = builder.add_extension(key_usage(signs_certificates=True), critical=True)
        signer, signing_key = parent.signer if parent else (None, key)
        issuer = signer.subject if signer else common_name(name)
        self.certificate = builder.issuer_name(issuer).sign(signing_key, hashes.SHA256())
        self._key = key

    @property
    def signer(self) -> tuple[x509.Certificate, PrivateKey]:
        return self.certificate, self._key

    @property
    def certificate_pem(self) -> str:
        return pem(self.certificate)

    def write(self, folder: Path, name: str = "ca") -> Path:
        """Write the authority's certificate as a PEM truststore."""
        path = folder / f"{name}.pem"
        path.write_text(self.certificate_pem, encoding="utf-8")
        return path

    def server(
        self, *hosts: str, validity: Validity = VALID, kind: KeyKind | None = None
    ) -> IssuedCertificate:
        """Issue a server certificate for names and addresses."""
        return self._issue(
            hosts[0] if hosts else "broker", hosts, ExtendedKeyUsageOID.SERVER_AUTH, validity, kind
        )

    def server_with_names(self, names: bytes) -> IssuedCertificate:
        """Issue a server certificate with a raw subjectAltName, which can be invalid DER."""
        key = self._kind.new_key()
        extension = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, names)
        builder = _builder(common_name("broker"), key, VALID).issuer_name(self.certificate.subject)
        signed = builder.add_extension(extension, critical=False).sign(self._key, hashes.SHA256())
        return IssuedCertificate(signed, key, self._chain())

    def client(
        self, name: str = "alice", validity: Validity = VALID, kind: KeyKind | None = None
    ) -> IssuedCertificate:
        """Issue a client certificate; Kafka's principal is User:CN=name."""
        return self._issue(name, (), ExtendedKeyUsageOID.CLIENT_AUTH, validity, kind)

    def _issue(
        self,
        name: str,
        hosts: tuple[str, ...],
        usage: x509.ObjectIdentifier,
        validity: Validity,
        kind: KeyKind | None,
    ) -> IssuedCertificate:
        key = (kind or self._kind).new_key()
        builder = _builder(common_name(name), key, validity).issuer_name(self.certificate.subject)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return IssuedCertificate(builder.sign(self._key, hashes.SHA256()), key, self._chain())

    def _chain(self) -> tuple[x509.Certificate, ...]:
        above = self._parent._chain() if self._parent else ()
        return (self.certificate, *above)


def self_signed(*hosts: str) -> IssuedCertificate:
    """Return a self-signed server certificate."""
    key = KeyKind.EC.new_key()
    names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
    builder = _builder(common_name(hosts[0]), key, VALID).issuer_name(common_name(hosts[0]))
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    return IssuedCertificate(certificate, key)


def _builder(subject: x509.Name, key: PrivateKey, validity: Validity) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=validity.start))
        .not_valid_after(now + timedelta(days=validity.end))
    )
