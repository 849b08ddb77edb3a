"""Describe why a TLS connection failed: explain OpenSSL's error, and recommend what to check.

Errors of the handshake and alerts from the broker are final, as in Java, which raises an
SslAuthenticationException. A connection that was only lost is retried.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from spark_kafka_sink.common.errors import BrokerUnavailableError, TlsError
from spark_kafka_sink.common.text import listed
from spark_kafka_sink.kafka.security.tls.client_context import (
    WEAKER,
    CipherSuiteError,
    PeerCertificateError,
    system_authorities_note,
)
from spark_kafka_sink.kafka.security.tls.verify_error import VerifyError

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_config import TlsConfig

_ALERT = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(?P<name>\w+)")
_LOST_CONNECTION = frozenset(
    {"BAD_RECORD_MAC", "DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "UNEXPECTED_EOF_WHILE_READING"}
)
"""Errors caused by bytes that were lost or modified in transit."""
_VERSION = frozenset(
    {"PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION", "NO_PROTOCOLS_AVAILABLE"}
)
_HANDSHAKE = frozenset({"HANDSHAKE_FAILURE", "INSUFFICIENT_SECURITY", "NO_SHARED_CIPHER"})
"""Alerts that older TLS versions send for many reasons."""
_OF_JAVA = (
    "Java brokers send this alert if the certificate has expired, or if their truststore lacks the "
    "certificate's authority."
)
_CLIENT_CERTIFICATE = {
    "UNKNOWN_CA": "The broker's truststore lacks the authority that signed the certificate.",
    "CERTIFICATE_UNKNOWN": _OF_JAVA,
    "BAD_CERTIFICATE": _OF_JAVA,
    "CERTIFICATE_EXPIRED": "Put a certificate that is still valid into the keystore.",
    "UNSUPPORTED_CERTIFICATE": "The certificate must be issued for clients: extended key usage "
    "clientAuth.",
    **dict.fromkeys(
        ("CERTIFICATE_REVOKED", "CERTIFICATE_REQUIRED", "ACCESS_DENIED", "DECRYPT_ERROR"),
        "See the log of the broker.",
    ),
}
"""Alerts about the client's certificate, with hints."""
_MAX_NAMES = 10
_UNKNOWN_AUTHORITY = frozenset(
    {
        VerifyError.UNABLE_TO_GET_ISSUER_CERT,
        VerifyError.DEPTH_ZERO_SELF_SIGNED_CERT,
        VerifyError.SELF_SIGNED_CERT_IN_CHAIN,
        VerifyError.UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
        VerifyError.UNABLE_TO_VERIFY_LEAF_SIGNATURE,
        VerifyError.CERT_UNTRUSTED,
    }
)
_OTHER_HOST = frozenset({VerifyError.HOSTNAME_MISMATCH, VerifyError.IP_ADDRESS_MISMATCH})
_INVALID: dict[int, str] = {
    VerifyError.INVALID_PURPOSE: "A broker's certificate must be issued for servers: extended key "
    "usage serverAuth.",
    **dict.fromkeys(
        (VerifyError.INVALID_CA_OF_OPENSSL_1, VerifyError.INVALID_CA),
        "The signing certificate must be a CA certificate (CA:TRUE).",
    ),
    **dict.fromkeys(
        (VerifyError.EE_KEY_TOO_SMALL, VerifyError.CA_KEY_TOO_SMALL, VerifyError.CA_MD_TOO_WEAK),
        "Renew the certificate: OpenSSL's default security level requires RSA keys of 2048 bits "
        f"and SHA-256 signatures. As a workaround: {WEAKER}",
    ),
}
"""Hints for certificates that are invalid or too weak, by OpenSSL's code."""


class _Explanation(NamedTuple):
    """The text of an error, and what to do."""

    message: str
    hint: str


_EXPLANATIONS: dict[str, _Explanation] = {
    # OpenSSL's error names for bytes that are not a TLS record.
    **dict.fromkeys(
        (
            "WRONG_VERSION_NUMBER",
            "RECORD_LAYER_FAILURE",
            "PACKET_LENGTH_TOO_LONG",
            "HTTP_REQUEST",
            "UNKNOWN_PROTOCOL",
            "BAD_RECORD_TYPE",
        ),
        _Explanation(
            "the broker's port does not use TLS",
            "Use the port of a TLS listener. Only if the cluster has none, and passwords and data "
            "may be sent unencrypted, set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT.",
        ),
    ),
    "DH_KEY_TOO_SMALL": _Explanation(
        "the broker's Diffie-Hellman parameters have fewer than 2048 bits",
        f"Configure larger parameters or ECDHE suites on the broker. As a workaround: {WEAKER}",
    ),
    "UNRECOGNIZED_NAME": _Explanation(
        "the broker, or a proxy in front of it, does not recognize the requested host name",
        "Check kafka.bootstrap.servers and the broker's advertised.listeners.",
    ),
}


def tls_failure(
    error: OSError, config: TlsConfig, broker: str
) -> TlsError | BrokerUnavailableError:
    """Return the error to report to the user.

    Args:
        error: the error of a handshake, read or write. With TLS 1.3, a broker rejects the client's
            certificate only after the client has completed its handshake.
        config: the settings of the connection.
        broker: host and port.

    Returns:
        TlsError if a retry cannot help, or BrokerUnavailableError if the connection was lost.
    """
    reason = _reason(error)
    if _is_broken(error, reason):
        message, hint = _explain_lost_connection(error, config)
        return BrokerUnavailableError(message, broker=broker, hint=hint)
    if isinstance(error, ssl.SSLCertVerificationError):
        message, hint = _explain_rejected_certificate(error, config, broker)
    else:
        message, hint = _explain_error(error, reason, config)
    return TlsError(message, broker=broker, hint=hint)


def _reason(error: OSError) -> str:
    """Return OpenSSL's name of the error. The TLS version is removed from the names of alerts."""
    reason = getattr(error, "reason", None) or ""
    alert = _ALERT.fullmatch(reason)
    return alert["name"] if alert else reason


def _is_broken(error: OSError, reason: str) -> bool:
    closed = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    return closed or not isinstance(error, ssl.SSLError) or reason in _LOST_CONNECTION


def _explain_lost_connection(error: OSError, config: TlsConfig) -> _Explanation:
    is_closed_by_peer = isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError)
    problem = "the broker closed the TLS connection"
    if not is_closed_by_peer:
        problem = f"the TLS connection was lost ({error.strerror})"
    advice = "If this persists, check that the port belongs to a TLS listener"
    if config.keystore is None:
        advice += (
            ", and whether the listener requires a client certificate (ssl.client.auth=required): "
            "if so, set kafka.ssl.keystore.location"
        )
    return _Explanation(problem, f"{advice}.")


def _explain_error(error: OSError, reason: str, config: TlsConfig) -> _Explanation:
    if isinstance(error, CipherSuiteError):
        return _Explanation(
            f"{error.strerror}, which is not in kafka.ssl.cipher.suites",
            "Add the suite, or remove TLSv1.3 from kafka.ssl.enabled.protocols.",
        )
    if reason in _VERSION:
        offered = " and ".join(version.value for version in config.protocols)
        return _Explanation(
            f"the broker supports none of the client's TLS versions: {offered}",
            "Check kafka.ssl.enabled.protocols and the broker's ssl.enabled.protocols; TLS 1.1 and "
            "older are insecure and not supported.",
        )
    if reason in _CLIENT_CERTIFICATE:
        return _explain_rejected_client(reason, config)
    if reason in _HANDSHAKE:
        return _explain_rejected_handshake(reason, config)
    message = f"the TLS handshake failed: {_readable_reason(reason) or error}"
    return _EXPLANATIONS.get(reason) or _Explanation(message, "See the broker's log.")


def _explain_rejected_handshake(reason: str, config: TlsConfig) -> _Explanation:
    advice = (
        "Most likely client and broker have no version or cipher suite in common "
        "(kafka.ssl.enabled.protocols, kafka.ssl.cipher.suites)"
    )
    if config.keystore is None:
        advice += ", or the broker requires a client certificate (set kafka.ssl.keystore.location)"
    return _Explanation(
        f"the broker rejected the TLS handshake: {_readable_reason(reason)}", f"{advice}."
    )


def _explain_rejected_client(reason: str, config: TlsConfig) -> _Explanation:
    if config.keystore is None:
        return _Explanation(
            "the broker requires a client certificate, but received none "
            f"({_readable_reason(reason)})",
            "Set kafka.ssl.keystore.location, or kafka.ssl.keystore.certificate.chain and "
            "kafka.ssl.keystore.key.",
        )
    return _Explanation(
        f"the broker rejected the client's certificate: {_readable_reason(reason)}",
        f"{_CLIENT_CERTIFICATE[reason]} The certificate is set with kafka.ssl.keystore.location, "
        "or .certificate.chain.",
    )


def _readable_reason(reason: str) -> str:
    return reason.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificate sent by a broker, as text."""

    names: tuple[str, ...] | None
    """Host names and addresses for which the certificate is valid, or None if unreadable."""
    issuer: str
    valid_from: str
    valid_until: str


def parse_peer_certificate(der: bytes | None) -> PeerCertificate | None:
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
        return _host_names(certificate)
    except Exception:  # noqa: BLE001 - as above
        return None


def _host_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the names in subjectAltName, or else the common name (RFC 6125), as OpenSSL does."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return tuple(str(attribute.value) for attribute in common)
    hosts = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return (*hosts, *map(str, addresses))


def _explain_rejected_certificate(
    error: ssl.SSLCertVerificationError, config: TlsConfig, broker: str
) -> _Explanation:
    """Explain why the broker's certificate was rejected, by OpenSSL's verify_code."""
    code = error.verify_code
    peer = (
        parse_peer_certificate(error.certificate)
        if isinstance(error, PeerCertificateError)
        else None
    )
    if code in _OTHER_HOST:
        return _Explanation(
            _describe_other_host(peer, broker),
            "Connect by a name that is in the certificate: check kafka.bootstrap.servers and the "
            "broker's advertised.listeners. An empty kafka.ssl.endpoint.identification.algorithm "
            "disables the check.",
        )
    if code in _UNKNOWN_AUTHORITY:
        return _Explanation(_describe_unknown_authority(code, peer), _trust_advice(config))
    if code == VerifyError.CERT_HAS_EXPIRED:
        until = f": its own certificate is valid until {peer.valid_until}" if peer else ""
        return _Explanation(
            f"the broker's certificate, or an issuing CA's, has expired{until}",
            "Renew the certificate on the broker. If it is still valid, check this host's clock.",
        )
    if code == VerifyError.CERT_NOT_YET_VALID:
        start = f": its own certificate is valid from {peer.valid_from}" if peer else ""
        return _Explanation(
            f"the broker's certificate, or an issuing CA's, is not yet valid{start}",
            "Check the clocks of this host and of the certificate's issuer.",
        )
    return _Explanation(
        f"the broker's certificate is invalid: {error.verify_message}",
        _INVALID.get(code, "Replace the broker's certificate."),
    )


def _describe_other_host(certificate: PeerCertificate | None, broker: str) -> str:
    host = broker.rpartition(":")[0].strip("[]") or broker
    if certificate is None or certificate.names is None:
        return f"the broker's certificate is not valid for {host}"
    names = listed(certificate.names, _MAX_NAMES) or "no host"
    return f"the broker's certificate is valid for {names}, not for {host}"


def _describe_unknown_authority(code: int, certificate: PeerCertificate | None) -> str:
    if code == VerifyError.DEPTH_ZERO_SELF_SIGNED_CERT:
        return "the broker's certificate is self-signed and not in the truststore"
    issuer_note = f", {certificate.issuer}" if certificate else ""
    return f"the broker's certificate is signed by an authority that is not trusted{issuer_note}"


def _trust_advice(config: TlsConfig) -> str:
    store = config.truststore
    if store is None:
        return (
            "Set kafka.ssl.truststore.location to a file with the authority's certificate; without "
            "this option, the operating system's authorities are "
            f"trusted{system_authorities_note()}."
        )
    option = store.certificates.option if store.certificates else store.location_option
    return (
        f"Add the authority's certificate to the file or text of {option}. A broker must send all "
        "intermediate certificates."
    )
