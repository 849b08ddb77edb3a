"""The broker's security put together: what the listeners and their connections need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.security.acl import Denials
from spark_kafka_sink.broker.security.authenticator import SaslServerAuthenticator, SaslServers
from spark_kafka_sink.broker.security.credentials import HASHES, Credentials
from spark_kafka_sink.broker.security.oauthbearer import OAuthBearerSaslServer
from spark_kafka_sink.broker.security.plain import PlainSaslServer
from spark_kafka_sink.broker.security.scram import ScramSaslServer
from spark_kafka_sink.broker.security.server_tls import ServerTls
from spark_kafka_sink.broker.security.settings import OAUTHBEARER, PLAIN, TlsFiles, revealed

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.security.mechanism import SaslServer
    from spark_kafka_sink.broker.security.settings import SecuritySettings

ANONYMOUS: Final = "ANONYMOUS"
"""Kafka's name for a client that nobody asked who it is."""


class ServerSecurity:
    """Certificates and users; they outlive a stop and start of the broker.

    Args:
        settings: what the user asked for.

    Raises:
        ConfigError: a certificate or a password can't be read.
    """

    def __init__(self, settings: SecuritySettings) -> None:
        self.settings = settings
        self.tls: ServerTls | None = None
        if settings.tls:
            files = settings.tls if isinstance(settings.tls, TlsFiles) else None
            self.tls = ServerTls(files, settings.hosts, settings.client_auth)
        self.denials = Denials()
        for denial in settings.denials:
            self.denials.add(denial)
        self.credentials = Credentials(settings.scram_iterations)
        for user, password in settings.passwords.items():
            self.credentials.set_password(user, revealed(user, password))
        self._servers = SaslServers(
            makers={name: self._maker(name) for name in settings.mechanisms},
            max_reauth_ms=settings.max_reauth_ms,
        )

    @property
    def is_open(self) -> bool:
        """Whether connections are plain and nobody is asked who they are."""
        return self.tls is None and not self.settings.mechanisms

    def _maker(self, mechanism: str) -> Callable[[], SaslServer]:
        makers: dict[str, Callable[[], SaslServer]] = {
            PLAIN: lambda: PlainSaslServer(self.credentials),
            OAUTHBEARER: lambda: OAuthBearerSaslServer(self.settings.token_validator),
        }
        if mechanism in HASHES:
            return lambda: ScramSaslServer(self.credentials, mechanism)
        return makers[mechanism]

    def new_authenticator(self) -> SaslServerAuthenticator | None:
        """The authentication of a new connection; None where everybody may come."""
        return SaslServerAuthenticator(self._servers) if self.settings.mechanisms else None
