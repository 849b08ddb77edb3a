"""TLS contexts, authenticators and denials for the listeners."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.security.acl import Denials
from spark_kafka_sink.broker.security.authenticator import SaslServerAuthenticator, SaslServers
from spark_kafka_sink.broker.security.certificates import (
    LIFETIME,
    CertificateAuthority,
    PemFiles,
    subject_of,
)
from spark_kafka_sink.broker.security.credentials import HASHES, Credentials
from spark_kafka_sink.broker.security.mechanism import PlainSaslServer
from spark_kafka_sink.broker.security.oauthbearer import OAuthBearerSaslServer
from spark_kafka_sink.broker.security.scram import ScramSaslServer
from spark_kafka_sink.broker.security.settings import (
    OAUTHBEARER,
    PLAIN,
    ClientAuth,
    TlsFiles,
    of_this_process,
    revealed,
)
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from spark_kafka_sink.broker.security.mechanism import SaslServer
    from spark_kafka_sink.broker.security.settings import SecuritySettings


_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class ServerTls:
    """The server's certificate, and the authority that clients need to trust.

    The context is read by the loop's thread and replaced as a whole by any other thread; open
    connections keep the one they started with.

    Args:
        files: files of a certificate; None to have the broker create one.
        hosts: host names and addresses for a certificate that the broker creates.
        client_auth: whether clients need certificates.

    Raises:
        ConfigError: a file cannot be read, or has the wrong content.
    """

    def __init__(
        self, files: TlsFiles | None, hosts: Iterable[str], client_auth: ClientAuth
    ) -> None:
        self.authority = CertificateAuthority()
        """Signs clients' certificates, and the server's unless files are given."""
        self.files = PemFiles()
        self._client_auth = client_auth
        self.hosts = tuple(hosts)
        if files is None:
            self.issue(self.hosts)
        else:
            self.use(files)

    def issue(self, hosts: Iterable[str], expires_in: timedelta = LIFETIME) -> None:
        """Create a certificate for new connections."""
        made = self.authority.server(hosts, expires_in)
        certificate, key = self.files.write_pair(made.certificate, made.key)
        own = self.authority.certificate
        context = self._new_context(own)
        context.load_cert_chain(certificate, key)
        self.context, self.ca_certificate = context, own

    def use(self, files: TlsFiles) -> None:
        """Load a certificate from files for new connections.

        Raises:
            ConfigError: a file cannot be read, or has the wrong content.
        """
        trusted = _read(files.ca)
        clients = _read(files.client_ca or files.ca)
        context = self._new_context(clients + self.authority.certificate)
        password = None
        if files.key_password is not None:
            password = of_this_process(Secret(files.key_password, "key_password"))
        try:
            context.load_cert_chain(files.certificate, files.key, password=password or "")
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the broker's certificate {files.certificate} can't be used with the key "
                f"{files.key}: {error}",
                hint="Both are PEM files that belong to each other; key_password opens the key",
            ) from None
        self.context, self.ca_certificate = context, trusted

    def _new_context(self, client_authorities: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.verify_mode = _VERIFY[self._client_auth]
        if self._client_auth is not ClientAuth.NONE:
            try:
                context.load_verify_locations(cadata=client_authorities)
            except ssl.SSLError as error:
                raise ConfigError(
                    f"the authorities of clients' certificates can't be read: {error}",
                    hint="client_ca, or ca without it, is a PEM file of certificates",
                ) from None
        return context


def peer_principal(certificate: bytes | None) -> str | None:
    """Return Kafka's principal name of a client's DER certificate; None without one."""
    return None if certificate is None else subject_of(certificate)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the broker's PEM file {path} can't be read: {error}", hint="Check the path"
        ) from None


ANONYMOUS: Final = "ANONYMOUS"
"""Kafka's name for a client that is not authenticated."""


class ServerSecurity:
    """Certificates, users and denials; they are kept while the broker is stopped and restarted.

    Args:
        settings: the broker's security settings.

    Raises:
        ConfigError: a certificate or a password cannot be read.
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
        """True if connections are plaintext without authentication."""
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
        """Return the authenticator of a new connection; None without SASL."""
        return SaslServerAuthenticator(self._servers) if self.settings.mechanisms else None
