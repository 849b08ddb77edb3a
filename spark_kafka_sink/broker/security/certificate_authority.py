"""A certificate authority for tests (RFC 5280).

Keys use the curve P-256, which all clients support and which is fast. Generating or using a key
takes a fraction of a millisecond.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable

LIFETIME = timedelta(days=365)
_SKEW = timedelta(days=1)
"""Time before its creation from which a certificate is valid, because clients' clocks can be slow.
"""


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
