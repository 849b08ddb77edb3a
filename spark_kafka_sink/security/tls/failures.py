"""Why a TLS connection failed: from what OpenSSL says to a sentence with the option to look at."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import BrokerUnavailableError, TlsError

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import TlsConfig


def tls_failure(
    error: OSError, config: TlsConfig, broker: str
) -> TlsError | BrokerUnavailableError:
    """What to tell the user; pure.

    Args:
        error: raised by a handshake, or by a read or write after it: with TLS 1.3 a broker refuses
            the client's certificate only after the client's handshake is done.
        config: the settings of the connection.
        broker: host and port.

    Returns:
        TlsError where no retry can help; BrokerUnavailableError where the connection broke.
    """
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return BrokerUnavailableError(
            f"the broker closed the connection in the TLS handshake: {error}", broker=broker
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        trust = "kafka.ssl.truststore.location" if config.truststore else "the system's authorities"
        return TlsError(
            f"the broker's certificate is not accepted: {error.verify_message}",
            broker=broker,
            hint=f"Look at the certificate and at {trust}.",
        )
    return TlsError(f"the TLS handshake failed: {error.reason}", broker=broker)
