"""Describe why a TLS connection failed: OpenSSL's error in a sentence that names what to check.

Errors for which Java raises an SslAuthenticationException are final: errors of the handshake itself
and alerts sent by the broker. A connection that merely breaks is retried.
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
"""OpenSSL's names for bytes that are not a TLS record."""
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
"""Errors caused by bytes that were lost or modified on the way."""

_OF_JAVA = "Java's brokers say so if it has expired, or if their truststore lacks its authority."


@dataclass(frozen=True, slots=True)
class _Sentence:
    message: str
    hint: str


def tls_failure(
    error: OSError, config: TlsConfig, broker: str
) -> TlsError | BrokerUnavailableError:
    """Return the error to report to the user. Pure.

    Args:
        error: raised by a handshake, or by a read or write after it: with TLS 1.3, a broker rejects
            the client's certificate only after the client has finished its handshake.
        config: the settings of the connection.
        broker: host and port.

    Returns:
        TlsError if a retry cannot help, or BrokerUnavailableError if the connection broke.
    """
    reason = _reason(error)
    if _is_broken(error, reason):
        said = _broken(error, config)
        return BrokerUnavailableError(said.message, broker=broker, hint=said.hint)
    if isinstance(error, ssl.SSLCertVerificationError):
        certificate = error.certificate if isinstance(error, PeerCertificateError) else None
        return verification_failure(error, certificate, config, broker)
    said = _sentence(error, reason, config)
    return TlsError(said.message, broker=broker, hint=said.hint)


def _reason(error: OSError) -> str:
    """Return OpenSSL's name of the error; for an alert, without the version that introduced it."""
    reason = getattr(error, "reason", None) or ""
    alert = _ALERT.fullmatch(reason)
    return alert["name"] if alert else reason


def _is_broken(error: OSError, reason: str) -> bool:
    closed = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    return closed or not isinstance(error, ssl.SSLError) or reason in _BROKEN


def _broken(error: OSError, config: TlsConfig) -> _Sentence:
    clean = isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError)
    how = "closed the connection" if clean else f"broke the connection ({error.strerror})"
    advice = "If it goes on, see that the port is one of a TLS listener"
    if config.keystore is None:
        advice += (
            ", and whether the listener wants a client's certificate (ssl.client.auth=required): "
            "then set kafka.ssl.keystore.location"
        )
    return _Sentence(f"the broker {how} under TLS", f"{advice}.")


def _sentence(error: OSError, reason: str, config: TlsConfig) -> _Sentence:
    if isinstance(error, CipherSuiteError):
        return _Sentence(
            f"{error.strerror}, which kafka.ssl.cipher.suites does not name",
            "Add the suite, or leave TLSv1.3 out of kafka.ssl.enabled.protocols.",
        )
    if reason in _NOT_TLS:
        return _Sentence(
            "the broker's port does not use TLS",
            "Use the port of a TLS listener. Only if the cluster has none, and passwords and data "
            "may be sent unencrypted, set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT.",
        )
    if reason in _VERSION:
        return _no_common_version(config)
    if reason in _CLIENT_CERTIFICATE:
        return _refused_client(reason, config)
    if reason in {"HANDSHAKE_FAILURE", "INSUFFICIENT_SECURITY", "NO_SHARED_CIPHER"}:
        return _no_common_ground(reason, config)
    if reason == "DH_KEY_TOO_SMALL":
        return _Sentence(
            "the broker's Diffie-Hellman parameters have less than 2048 bits",
            f"Give it others, or suites of ECDHE. Until then: {WEAKER}",
        )
    if reason == "UNRECOGNIZED_NAME":
        return _Sentence(
            "the broker, or a proxy before it, knows no host of the name that the client asked for",
            "Look at kafka.bootstrap.servers and at the broker's advertised.listeners.",
        )
    return _Sentence(
        f"the TLS handshake failed: {_spoken(reason) or error}",
        "The broker's log says more.",
    )


def _no_common_version(config: TlsConfig) -> _Sentence:
    offered = " and ".join(version.value for version in config.protocols)
    return _Sentence(
        f"the broker speaks no version of TLS that the client offers, which is {offered}",
        "Look at kafka.ssl.enabled.protocols and at the broker's; TLS 1.1 and older are not safe "
        "and not supported.",
    )


def _no_common_ground(reason: str, config: TlsConfig) -> _Sentence:
    """Return the sentence for an alert that older TLS versions send for many reasons."""
    advice = (
        "Most likely the two have no version or cipher suite in common "
        "(kafka.ssl.enabled.protocols, kafka.ssl.cipher.suites)"
    )
    if config.keystore is None:
        advice += ", or the broker wants a client's certificate (set kafka.ssl.keystore.location)"
    return _Sentence(
        f"the broker refused the TLS handshake: {_spoken(reason)}",
        f"{advice}.",
    )


def _refused_client(reason: str, config: TlsConfig) -> _Sentence:
    if config.keystore is None:
        return _Sentence(
            f"the broker wants a client's certificate and got none ({_spoken(reason)})",
            "Set kafka.ssl.keystore.location, or kafka.ssl.keystore.certificate.chain and "
            "kafka.ssl.keystore.key.",
        )
    advice = {
        "UNKNOWN_CA": "The broker's truststore lacks the authority that signed it.",
        "CERTIFICATE_UNKNOWN": _OF_JAVA,
        "BAD_CERTIFICATE": _OF_JAVA,
        "CERTIFICATE_EXPIRED": "Put a certificate that is still valid into the keystore.",
        "UNSUPPORTED_CERTIFICATE": "It must be made for clients: extended key usage clientAuth.",
    }
    return _Sentence(
        f"the broker does not accept the client's certificate: {_spoken(reason)}",
        f"{advice.get(reason, 'The log of the broker says more.')} It comes from "
        "kafka.ssl.keystore.location, or .certificate.chain.",
    )


def _spoken(reason: str) -> str:
    return reason.lower().replace("_", " ")
