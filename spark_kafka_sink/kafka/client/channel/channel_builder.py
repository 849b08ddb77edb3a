"""Set up TLS and SASL for a client's connections, according to kafka.security.protocol.

The TLS and SASL modules are imported only if needed, because the import delays the start of each
worker process. Source: ``ChannelBuilders.clientChannelBuilder``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError, TlsError
from spark_kafka_sink.kafka.client.channel.authenticator import SaslLogin
from spark_kafka_sink.kafka.client.channel.tls_transport import TlsTransport

if TYPE_CHECKING:
    from ssl import SSLContext

    from spark_kafka_sink.config.security.security_config import (
        SaslConfig,
        SecurityConfig,
        TlsConfig,
    )
    from spark_kafka_sink.kafka.client.channel.transport import Transport
    from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange


class ChannelBuilder:
    """Encrypts transports, and creates the logins of connections.

    Used only by the sender thread, except for `load_stores`.

    Raises:
        ConfigError, TlsError: a truststore or a keystore cannot be used on this host.
    """

    def __init__(self, security: SecurityConfig) -> None:
        self.security = security
        self._tls_context = None if security.tls is None else _load_tls_context(security.tls)
        """The TLS context. `load_stores` replaces it on a different thread."""

    @property
    def uses_tls(self) -> bool:
        """True if connections use TLS."""
        return self.security.tls is not None

    def load_stores(self) -> None:
        """Reload the certificates if their files have changed. Can block.

        Raises:
            OSError, ConfigError, TlsError: a truststore or a keystore cannot be used.
        """
        assert self.security.tls is not None
        self._tls_context = _load_tls_context(self.security.tls)

    def encrypted(self, transport: Transport, host: str) -> TlsTransport:
        """Return a TLS transport over a connected transport, with the latest certificates.

        Raises:
            OSError: the host name is not valid in TLS.
        """
        assert self._tls_context is not None
        return TlsTransport(transport, self._tls_context, host)

    def login(self, host: str) -> SaslLogin | None:
        """Return the login for a broker, or None without SASL."""
        sasl = self.security.sasl
        if sasl is None:
            return None
        return SaslLogin(sasl.mechanism, partial(_new_exchange, sasl, host))


def _load_tls_context(tls: TlsConfig) -> SSLContext:
    from spark_kafka_sink.kafka.security.tls.context_cache import broker_contexts

    try:
        return broker_contexts.context(tls)
    except (KafkaProdError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a library's error ends only the connection
        # Without the cause, because the library's message can contain secrets.
        raise TlsError(
            f"TLS cannot be configured from the kafka.ssl.* options: {type(error).__name__}",
            hint="Recreate the truststore and the keystore as PKCS12 or PEM.",
        ) from None


def _new_exchange(sasl: SaslConfig, host: str) -> SaslExchange:
    from spark_kafka_sink.kafka.security.sasl.factory import exchange_for

    return exchange_for(sasl, host)
