"""Describe why a TLS connection failed: explain OpenSSL's error, and recommend what to check.

Errors of the handshake and alerts from the broker are final, as in Java, which raises an
SslAuthenticationException. A connection that was only lost is retried.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import BrokerUnavailableError, TlsError
from spark_kafka_sink.security.tls.context import CipherSuiteError, PeerCertificateError
from spark_kafka_sink.security.tls.verification import WEAKER, verification_failure

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import TlsConfig

_ALERT = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(?P<name>\w+)")

_NOT_TLS = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "RECORD_LAYER_FAILURE",
        "PACKET_LENGTH_TOO_LONG",
        "HTTP_REQUEST",
        "UNKNOWN_PROTOCOL",
        "BAD_RECORD_TYPE",
    }
)
"""OpenSSL's error names for bytes that are not a TLS record."""
_VERSION = frozenset(
    {"PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION", "NO_PROTOCOLS_AVAILABLE"}
)
_CLIENT_CERTIFICATE = frozenset(
    {
        "BAD_CERTIFICATE",
        "UNKNOWN_CA",
        "CERTIFICATE_EXPIRED",
        "CERTIFICATE_REVOKED",
        "CERTIFICATE_UNKNOWN",
        "UNSUPPORTED_CERTIFICATE",
        "CERTIFICATE_REQUIRED",
        "ACCESS_DENIED",
        "DECRYPT_ERROR",
    }
)
"""Alerts about the client's certificate."""
_BROKEN = frozenset(
    {"BAD_RECORD_MAC", "DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "UNEXPECTED_EOF_WHILE_READING"}
)
"""Errors caused by bytes that were lost or modified in transit."""

_OF_JAVA = (
    "Java brokers send this alert if the certificate has expired, "
    "or if their truststore lacks the certificate's authority."
)


@dataclass(frozen=True, slots=True)
class _Explanation:
    message: str
    hint: str


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
        text = _broken(error, config)
        return BrokerUnavailableError(text.message, broker=broker, hint=text.hint)
    if isinstance(error, ssl.SSLCertVerificationError):
        certificate = error.certificate if isinstance(error, PeerCertificateError) else None
        return verification_failure(error, certificate, config, broker)
    text = _explanation(error, reason, config)
    return TlsError(text.message, broker=broker, hint=text.hint)


def _reason(error: OSError) -> str:
    """Return OpenSSL's name of the error. The TLS version is removed from the names of alerts."""
    reason = getattr(error, "reason", None) or ""
    alert = _ALERT.fullmatch(reason)
    return alert["name"] if alert else reason


def _is_broken(error: OSError, reason: str) -> bool:
    closed = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    return closed or not isinstance(error, ssl.SSLError) or reason in _BROKEN


def _broken(error: OSError, config: TlsConfig) -> _Explanation:
    clean = isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError)
    what = "the broker closed the TLS connection"
    if not clean:
        what = f"the TLS connection was lost ({error.strerror})"
    advice = "If this persists, check that the port belongs to a TLS listener"
    if config.keystore is None:
        advice += (
            ", and whether the listener requires a client certificate (ssl.client.auth=required): "
            "if so, set kafka.ssl.keystore.location"
        )
    return _Explanation(what, f"{advice}.")


def _explanation(error: OSError, reason: str, config: TlsConfig) -> _Explanation:
    if isinstance(error, CipherSuiteError):
        return _Explanation(
            f"{error.strerror}, which is not in kafka.ssl.cipher.suites",
            "Add the suite, or remove TLSv1.3 from kafka.ssl.enabled.protocols.",
        )
    if reason in _NOT_TLS:
        return _Explanation(
            "the broker's port does not use TLS",
            "Use the port of a TLS listener. Only if the cluster has none, and passwords and data "
            "may be sent unencrypted, set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT.",
        )
    if reason in _VERSION:
        return _no_common_version(config)
    if reason in _CLIENT_CERTIFICATE:
        return _refused_client(reason, config)
    if reason in {"HANDSHAKE_FAILURE", "INSUFFICIENT_SECURITY", "NO_SHARED_CIPHER"}:
        return _handshake_rejected(reason, config)
    if reason == "DH_KEY_TOO_SMALL":
        return _Explanation(
            "the broker's Diffie-Hellman parameters have fewer than 2048 bits",
            f"Configure larger parameters or ECDHE suites on the broker. As a workaround: {WEAKER}",
        )
    if reason == "UNRECOGNIZED_NAME":
        return _Explanation(
            "the broker, or a proxy in front of it, does not recognize the requested host name",
            "Check kafka.bootstrap.servers and the broker's advertised.listeners.",
        )
    return _Explanation(
        f"the TLS handshake failed: {_words(reason) or error}",
        "See the broker's log.",
    )


def _no_common_version(config: TlsConfig) -> _Explanation:
    offered = " and ".join(version.value for version in config.protocols)
    return _Explanation(
        f"the broker supports none of the client's TLS versions: {offered}",
        "Check kafka.ssl.enabled.protocols and the broker's ssl.enabled.protocols; TLS 1.1 and "
        "older are insecure and not supported.",
    )


def _handshake_rejected(reason: str, config: TlsConfig) -> _Explanation:
    """Return the description of an alert that older TLS versions send for many reasons."""
    advice = (
        "Most likely client and broker have no version or cipher suite in common "
        "(kafka.ssl.enabled.protocols, kafka.ssl.cipher.suites)"
    )
    if config.keystore is None:
        advice += ", or the broker requires a client certificate (set kafka.ssl.keystore.location)"
    return _Explanation(
        f"the broker rejected the TLS handshake: {_words(reason)}",
        f"{advice}.",
    )


def _refused_client(reason: str, config: TlsConfig) -> _Explanation:
    if config.keystore is None:
        return _Explanation(
            f"the broker requires a client certificate, but received none ({_words(reason)})",
            "Set kafka.ssl.keystore.location, or kafka.ssl.keystore.certificate.chain and "
            "kafka.ssl.keystore.key.",
        )
    advice = {
        "UNKNOWN_CA": "The broker's truststore lacks the authority that signed the certificate.",
        "CERTIFICATE_UNKNOWN": _OF_JAVA,
        "BAD_CERTIFICATE": _OF_JAVA,
        "CERTIFICATE_EXPIRED": "Put a certificate that is still valid into the keystore.",
        "UNSUPPORTED_CERTIFICATE": "The certificate must be issued for clients: extended key usage "
        "clientAuth.",
    }
    return _Explanation(
        f"the broker rejected the client's certificate: {_words(reason)}",
        f"{advice.get(reason, 'See the log of the broker.')} The certificate is set with "
        "kafka.ssl.keystore.location, or .certificate.chain.",
    )


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
