"""What kafka.security.protocol asks of a connection, put together once for a client.

TLS and SASL are imported where they are asked for: each worker process would wait for them.
Source: ``ChannelBuilders.clientChannelBuilder``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.authenticator import SaslLogin
from spark_kafka_sink.client.channel.tls_transport import TlsTransport
from spark_kafka_sink.common.errors import KafkaProdError, TlsError

if TYPE_CHECKING:
    from ssl import SSLContext

    from spark_kafka_sink.client.channel.transport import Transport
    from spark_kafka_sink.config.security.model import SaslConfig, SecurityConfig, TlsConfig
    from spark_kafka_sink.security.sasl.exchange import SaslExchange


class ChannelBuilder:
    """Encrypts transports, and says how to log in.

    Sender thread only, but for `load_stores`.

    Raises:
        ConfigError, TlsError: a truststore or a keystore can't be used on this host.
    """

    def __init__(self, security: SecurityConfig) -> None:
        self.security = security
        self._context = None if security.tls is None else _context(security.tls)
        """Written by the threads that `load_stores` is called on."""

    @property
    def uses_tls(self) -> bool:
        """Whether a connected transport has to be encrypted before anything is said."""
        return self.security.tls is not None

    def load_stores(self) -> None:
        """Take the certificates as they are by now; to be called on a thread that may wait.

        Raises:
            OSError, ConfigError, TlsError: as when this was made.
        """
        assert self.security.tls is not None
        self._context = _context(self.security.tls)

    def encrypted(self, transport: Transport, host: str) -> TlsTransport:
        """TLS over a connected transport, with the certificates that were loaded last.

        Raises:
            OSError: the host can't have TLS.
        """
        assert self._context is not None
        return TlsTransport(transport, self._context, host)

    def login(self, host: str) -> SaslLogin | None:
        """How to log in at a broker; None where there is no SASL."""
        sasl = self.security.sasl
        if sasl is None:
            return None
        return SaslLogin(sasl.mechanism, partial(_new_exchange, sasl, host))


def _context(tls: TlsConfig) -> SSLContext:
    from spark_kafka_sink.security.tls.context import CONTEXTS

    try:
        return CONTEXTS.context(tls)
    except (KafkaProdError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - what a library raises ends a connection alone
        raise TlsError(
            f"TLS can't be set up from the kafka.ssl.* options: {type(error).__name__}",
            hint="Write the truststore and the keystore anew, as PKCS12 or PEM.",
        ) from None  # its text may hold what it could not read


def _new_exchange(sasl: SaslConfig, host: str) -> SaslExchange:
    from spark_kafka_sink.security.sasl.factory import exchange_for

    return exchange_for(sasl, host)
