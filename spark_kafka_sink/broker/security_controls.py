"""The methods of `EmbeddedBroker` that change its security or return client options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.authorization.denials import Denial, denial_of
from spark_kafka_sink.broker.security.certificate_authority import LIFETIME, Certificate
from spark_kafka_sink.broker.security.settings import (
    OAUTHBEARER,
    PLAIN,
    ClientAuth,
    TlsFiles,
    reveal_password,
)
from spark_kafka_sink.broker.server_security import ServerSecurity
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from pathlib import Path

    from spark_kafka_sink.broker.config.broker_config import BrokerConfig
    from spark_kafka_sink.broker.security.server_tls import ServerTls

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES = {
    "SCRAM-SHA-512": _SCRAM,
    "SCRAM-SHA-256": _SCRAM,
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""Java's login modules by mechanism, in order of preference."""


def _trust(ca_certificate: str | None, client_certificate: Certificate | None) -> dict[str, str]:
    """Return the client options for the truststore and, with a certificate, for the keystore."""
    options: dict[str, str] = {}
    if ca_certificate is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca_certificate}
    if client_certificate is not None:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": client_certificate.certificate,
            "ssl.keystore.key": client_certificate.key,
        }
    return options


def _quote_jaas_value(text: str) -> str:
    """Quote a value for a JAAS entry, which Java parses with StreamTokenizer."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class SecurityControls(ABC):
    """Methods for certificates, users, deny rules and client options. Callable at any time.

    Args:
        config: the broker's settings.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._security = ServerSecurity(config)
        self._passwords = dict(config.sasl or {})
        """The users' passwords, needed for client options. The server side does not store
        passwords.
        """

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Addresses of all nodes for clients, separated by commas."""

    @property
    def security_protocol(self) -> str:
        """Kafka's security.protocol for clients, such as SASL_SSL."""
        return self.config.protocol

    @property
    def ca_certificate(self) -> str:
        """The certificate of the authority that clients must trust, as PEM text.

        Raises:
            ConfigError: TLS is not enabled.
        """
        return self._required_tls.ca_certificate

    @property
    def ca_file(self) -> Path:
        """Path of a PEM file that contains `ca_certificate`. The file is deleted with this object.

        Raises:
            ConfigError: the broker has no TLS.
        """
        return self._required_tls.files.write("ca.crt", self._required_tls.ca_certificate)

    def client_certificate(self, name: str, expires_in: timedelta = LIFETIME) -> Certificate:
        """Issue a certificate for a client. The client's principal is User:CN=`name`.

        Args:
            name: the common name.
            expires_in: lifetime from now on; negative for an expired certificate.

        Raises:
            ConfigError: the broker has no TLS.
        """
        return self._required_tls.authority.client(name, expires_in)

    def client_certificate_files(self, certificate: Certificate) -> tuple[Path, Path]:
        """Write a certificate and its key to PEM files, which are deleted with this object.

        Raises:
            ConfigError: the broker has no TLS.
        """
        return self._required_tls.files.write_pair(certificate.certificate, certificate.key)

    def change_certificate(
        self,
        files: TlsFiles | None = None,
        *,
        hosts: Sequence[str] | None = None,
        expires_in: timedelta = LIFETIME,
    ) -> None:
        """Change the server's certificate. Open connections are not affected.

        Args:
            files: files of a certificate, or None for a certificate issued by the broker's
                authority.
            hosts: host names and addresses of the issued certificate; by default the broker's.
            expires_in: lifetime from now on; negative for an expired certificate.

        Raises:
            ConfigError: the broker has no TLS, or a file cannot be used.
        """
        if files is not None:
            self._required_tls.use(files)
        else:
            names = self._required_tls.hosts if hosts is None else hosts
            self._required_tls.issue(names, expires_in)

    def set_password(self, user: str, password: str) -> None:
        """Add a user or change a password. Takes effect at the next authentication."""
        self._security.credentials.set_password(user, password)
        self._passwords[user] = password

    def remove_user(self, user: str) -> None:
        """Remove a user. Has no effect if the user does not exist."""
        self._security.credentials.remove(user)
        self._passwords.pop(user, None)

    def deny(
        self,
        user: str,
        operation: str = "All",
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
    ) -> Denial:
        """Deny an operation to a user, with immediate effect.

        Args:
            user: a principal's name; "*" for all users, ANONYMOUS for unauthenticated clients,
                "CN=name" for clients authenticated by a certificate.
            operation: Kafka's name for the operation, such as Write, Describe or IdempotentWrite.
            topic: the topic's name; "*" for all topics, "x*" for names that start with x.
            group: the consumer group, in the same form as `topic`.
            transactional_id: the transactional id, in the same form as `topic`. Without a topic,
                group or transactional id, the rule applies to the cluster.

        Returns:
            The deny rule, which can be passed to `remove_denial`.

        Raises:
            ConfigError: the operation is unknown, or more than one resource is specified.
        """
        denial = denial_of(
            user, operation, topic=topic, group=group, transactional_id=transactional_id
        )
        self._security.denials.add(denial)
        return denial

    def remove_denial(self, denial: Denial | None = None) -> None:
        """Remove a deny rule, or by default all rules. Has no effect if the rule does not exist."""
        if denial is None:
            self._security.denials.clear()
        else:
            self._security.denials.remove(denial)

    def client_options(
        self,
        user: str | None = None,
        *,
        mechanism: str | None = None,
        certificate: Certificate | None = None,
        prefix: str = "kafka.",
    ) -> dict[str, str]:
        """Return the client options for addresses, protocol, truststore and login.

        The default prefix is for `df.write.format("kafkaprod").options(**...)`.

        Args:
            user: the user that logs in. Optional if there is only one user.
            mechanism: the SASL mechanism; by default, the strongest mechanism of the broker.
            certificate: the client's certificate, from `client_certificate`. By default, a
                certificate is issued to the user or to "client" if the broker requires one.
            prefix: prefix of each option name; "" for the configs of Java clients.

        Raises:
            ConfigError: the user does not exist, or the mechanism is not enabled.
        """
        ca = None if self._security.tls is None else self.ca_certificate
        if certificate is None and self.config.client_auth is ClientAuth.REQUIRED:
            certificate = self.client_certificate(user or "client")
        options = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
            **_trust(ca, certificate),
            **self._login_options(user, mechanism),
        }
        return {prefix + name: value for name, value in options.items()}

    def _login_options(self, user: str | None, mechanism: str | None) -> dict[str, str]:
        """Return sasl.mechanism and sasl.jaas.config, or an empty dict if SASL is not enabled.

        For OAUTHBEARER, the options contain an unsigned token.
        """
        enabled = self.config.mechanisms
        if not enabled:
            return {}
        chosen = mechanism or next(name for name in _MODULES if name in enabled)
        if chosen not in enabled:
            raise ConfigError(
                f"the broker does not support {chosen}", hint=f"Mechanisms: {', '.join(enabled)}."
            )
        if chosen == OAUTHBEARER:
            options = {"unsecuredLoginStringClaim_sub": user or "user"}
        else:
            name = user or self._only_user()
            if name not in self._passwords:
                raise ConfigError(
                    f"the broker has no user {name}", hint=f"Users: {', '.join(self._passwords)}."
                )
            options = {"username": name, "password": reveal_password(name, self._passwords[name])}
        jaas = " ".join(f"{name}={_quote_jaas_value(value)}" for name, value in options.items())
        jaas = f"{_MODULES[chosen]} required {jaas};"
        return {"sasl.mechanism": chosen, "sasl.jaas.config": jaas}

    def _only_user(self) -> str:
        if len(self._passwords) != 1:
            raise ConfigError(
                "client_options requires a user name", hint=f"Users: {', '.join(self._passwords)}."
            )
        return next(iter(self._passwords))

    @property
    def _required_tls(self) -> ServerTls:
        if self._security.tls is None:
            raise ConfigError(
                "the embedded broker does not use TLS", hint="Start the broker with tls=True."
            )
        return self._security.tls
