"""What a sentence about a broker's certificate says of it."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificate that a broker showed, as text."""

    names: tuple[str, ...] | None
    """Host names and addresses that it is good for; None where they can't be read."""
    issuer: str
    valid_from: str
    valid_until: str


def describe(der: bytes | None) -> PeerCertificate | None:
    """Read a certificate; None where there is none, or it is too odd to be read."""
    if der is None:
        return None
    try:
        certificate = x509.load_der_x509_certificate(der)
        return PeerCertificate(
            _readable_names(certificate),
            certificate.issuer.rfc4514_string(),
            f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC",
            f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
        )
    except Exception:  # noqa: BLE001 - cryptography's errors have no base, and the bytes are foreign
        return None


def _readable_names(certificate: x509.Certificate) -> tuple[str, ...] | None:
    """None where an extension is damaged, occurs twice, or has a kind of name that is rare."""
    try:
        return _names(certificate)
    except Exception:  # noqa: BLE001 - as above
        return None


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Of subjectAltName, or the common name where that is missing (RFC 6125, as OpenSSL does)."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return tuple(str(attribute.value) for attribute in common)
    hosts = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return (*hosts, *map(str, addresses))
