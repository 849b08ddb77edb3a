"""The security of a broker: TLS contexts and authenticators for the listeners, and deny rules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.authorization.denials import Denials, parse_denial
from spark_kafka_sink.broker.security import plain_and_scram
from spark_kafka_sink.broker.security.oauthbearer import OAuthBearerSaslServer
from spark_kafka_sink.broker.security.sasl_server import SaslServer, SaslServerAuthenticator
from spark_kafka_sink.broker.security.server_tls import ServerTls
from spark_kafka_sink.broker.security.settings import (
    OAUTHBEARER,
    PLAIN,
    TlsFiles,
    reveal_password,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.config.broker_config import BrokerConfig


class ServerSecurity:
    """Certificates, users and deny rules, which are retained when the broker restarts.

    Args:
        config: the broker's settings.

    Raises:
        ConfigError: a certificate or a password cannot be read.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.tls: ServerTls | None = None
        if config.tls:
            files = config.tls if isinstance(config.tls, TlsFiles) else None
            self.tls = ServerTls(files, config.certificate_hosts, config.client_auth)
        self.denials = Denials()
        for denial in config.denials:
            self.denials.add(parse_denial(denial))
        self.credentials = plain_and_scram.Credentials(config.scram_iterations)
        for user, password in (config.sasl or {}).items():
            self.credentials.set_password(user, reveal_password(user, password))
        makers: dict[str, Callable[[], SaslServer]] = {
            PLAIN: lambda: plain_and_scram.PlainSaslServer(self.credentials),
            OAUTHBEARER: lambda: OAuthBearerSaslServer(config.oauthbearer_validator),
            **{
                name: partial(plain_and_scram.ScramSaslServer, self.credentials, name)
                for name in plain_and_scram.HASHES
            },
        }
        self._makers = {name: makers[name] for name in config.mechanisms}

    @property
    def is_open(self) -> bool:
        """True if connections are unencrypted and not authenticated."""
        return self.tls is None and not self._makers

    def new_authenticator(self) -> SaslServerAuthenticator | None:
        """Return the authenticator for a new connection, or None if SASL is not enabled."""
        if not self._makers:
            return None
        return SaslServerAuthenticator(self._makers, self.config.connections_max_reauth_ms)
