"""What kafka.security.protocol asks of a connection, put together once for a client.

TLS and SASL are imported where they are asked for: each worker process would wait for them.
Source: ``ChannelBuilders.clientChannelBuilder``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.authenticator import SaslLogin
from spark_kafka_sink.client.channel.tls_transport import TlsTransport

if TYPE_CHECKING:
    from ssl import SSLContext

    from spark_kafka_sink.client.channel.transport import Transport
    from spark_kafka_sink.config.security.model import SaslConfig, SecurityConfig, TlsConfig
    from spark_kafka_sink.security.sasl.exchange import SaslExchange


class ChannelBuilder:
    """Encrypts transports, and says how to log in.

    Raises:
        ConfigError: a truststore or a keystore can't be used on this host.
    """

    def __init__(self, security: SecurityConfig) -> None:
        self.security = security
        if security.tls is not None:
            _context(security.tls)

    @property
    def uses_tls(self) -> bool:
        """Whether a connected transport has to be encrypted before anything is said."""
        return self.security.tls is not None

    def encrypted(self, transport: Transport, host: str) -> TlsTransport:
        """TLS over a connected transport, with certificates as they are by now.

        Raises:
            OSError: the host can't have TLS.
        """
        assert self.security.tls is not None
        return TlsTransport(transport, _context(self.security.tls), host)

    def login(self, host: str) -> SaslLogin | None:
        """How to log in at a broker; None where there is no SASL."""
        sasl = self.security.sasl
        if sasl is None:
            return None
        return SaslLogin(sasl.mechanism, partial(_new_exchange, sasl, host))


def _context(tls: TlsConfig) -> SSLContext:
    from spark_kafka_sink.security.tls.context_cache import CONTEXTS

    return CONTEXTS.context(tls)


def _new_exchange(sasl: SaslConfig, host: str) -> SaslExchange:
    from spark_kafka_sink.security.sasl.factory import exchange_for

    return exchange_for(sasl, host)
