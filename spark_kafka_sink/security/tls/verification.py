"""Describe why a broker's certificate was rejected: explain OpenSSL's error codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.x509.oid import NameOID

from spark_kafka_sink.common.errors import TlsError

if TYPE_CHECKING:
    import ssl

    from spark_kafka_sink.config.security.model import TlsConfig


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificate sent by a broker, as text."""

    names: tuple[str, ...] | None
    """Host names and addresses for which the certificate is valid, or None if unreadable."""
    issuer: str
    valid_from: str
    valid_until: str


def describe(der: bytes | None) -> PeerCertificate | None:
    """Parse a certificate, or return None if it is missing or cannot be parsed."""
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
    """Return the names, or None if an extension is damaged, duplicated or of an unusual type."""
    try:
        return _names(certificate)
    except Exception:  # noqa: BLE001 - as above
        return None


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the names in subjectAltName, or else the common name (RFC 6125), as OpenSSL does."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return tuple(str(attribute.value) for attribute in common)
    hosts = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return (*hosts, *map(str, addresses))


NOT_YET_VALID = 9
EXPIRED = 10
SELF_SIGNED = 18
_UNKNOWN_AUTHORITY = frozenset({2, 19, 20, 21, 27})
_INVALID_PURPOSE = 26
_INVALID_AUTHORITY = frozenset({24, 79})
"""OpenSSL's codes for an invalid CA certificate. The first code is used up to OpenSSL 1.1."""
_OTHER_HOST = frozenset({62, 64})
_TOO_WEAK = frozenset({66, 67, 68})
_MOST_NAMES = 10
WEAKER = (
    "kafka.ssl.cipher.suites=@SECLEVEL=1 accepts keys of 1024 bits; @SECLEVEL=0 also accepts SHA-1."
)
"""How to accept keys and signatures that Java accepts and OpenSSL rejects. Never a default."""


def verification_failure(
    error: ssl.SSLCertVerificationError, certificate: bytes | None, config: TlsConfig, broker: str
) -> TlsError:
    """Return the error to report to the user.

    Args:
        error: the error with OpenSSL's verify_code and verify_message.
        certificate: the broker's certificate as DER, if known.
        config: the settings of the connection.
        broker: host and port.
    """
    shown = describe(certificate)
    code = error.verify_code
    if code in _OTHER_HOST:
        return TlsError(
            _other_host(shown, broker),
            broker=broker,
            hint="Connect by a name that is in the certificate: check kafka.bootstrap.servers and "
            "the broker's advertised.listeners. An empty "
            "kafka.ssl.endpoint.identification.algorithm disables the check.",
        )
    if code == SELF_SIGNED or code in _UNKNOWN_AUTHORITY:
        return TlsError(_unknown(code, shown), broker=broker, hint=_trust_advice(config))
    if code == EXPIRED:
        until = f": its own certificate is valid until {shown.valid_until}" if shown else ""
        return TlsError(
            f"the broker's certificate, or an issuing CA's, has expired{until}",
            broker=broker,
            hint="Renew the certificate on the broker. If it is still valid, check this host's "
            "clock.",
        )
    if code == NOT_YET_VALID:
        start = f": its own certificate is valid from {shown.valid_from}" if shown else ""
        return TlsError(
            f"the broker's certificate, or an issuing CA's, is not yet valid{start}",
            broker=broker,
            hint="Check the clocks of this host and of the certificate's issuer.",
        )
    return TlsError(
        f"the broker's certificate is invalid: {error.verify_message}",
        broker=broker,
        hint=_other_advice(code),
    )


def _other_host(shown: PeerCertificate | None, broker: str) -> str:
    host = broker.rpartition(":")[0].strip("[]") or broker
    if shown is None or shown.names is None:
        return f"the broker's certificate is not valid for {host}"
    names = ", ".join(shown.names[:_MOST_NAMES]) or "no host"
    more = ", …" if len(shown.names) > _MOST_NAMES else ""
    return f"the broker's certificate is valid for {names}{more}, not for {host}"


def _unknown(code: int, shown: PeerCertificate | None) -> str:
    if code == SELF_SIGNED:
        return "the broker's certificate is self-signed and not in the truststore"
    by = f", {shown.issuer}" if shown else ""
    return f"the broker's certificate is signed by an authority that is not trusted{by}"


def _trust_advice(config: TlsConfig) -> str:
    store = config.truststore
    if store is None:
        return (
            "Set kafka.ssl.truststore.location to a file with the authority's certificate; "
            "without this option, the operating system's authorities are trusted."
        )
    option = store.certificates.option if store.certificates else "kafka.ssl.truststore.location"
    return (
        f"Add the authority's certificate to the file or text of {option}. A broker must send all "
        "intermediate certificates."
    )


def _other_advice(code: int) -> str:
    if code == _INVALID_PURPOSE:
        return "A broker's certificate must be issued for servers: extended key usage serverAuth."
    if code in _INVALID_AUTHORITY:
        return "The signing certificate must be a CA certificate (CA:TRUE)."
    if code in _TOO_WEAK:
        return (
            "Renew the certificate: OpenSSL's default security level requires RSA keys of 2048 "
            "bits and SHA-256 "
            f"signatures. As a workaround: {WEAKER}"
        )
    return "Replace the broker's certificate."
