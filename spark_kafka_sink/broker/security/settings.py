"""The security settings of a broker, and their validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from spark_kafka_sink.broker.authorization.denials import parse_denial
from spark_kafka_sink.broker.plain_settings import MIN_SCRAM_ITERATIONS, PlainSettings
from spark_kafka_sink.broker.security.oauthbearer import TokenValidator, validate_unsecured
from spark_kafka_sink.broker.security.plain_and_scram import HASHES
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret

_USERS = 'Set users and passwords, as in sasl={"alice": "secret"}, or omit sasl'
PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
_PASSWORD_MECHANISMS = (PLAIN, *HASHES)
"""The mechanisms that are enabled by default if users have passwords."""
_MECHANISMS = (*_PASSWORD_MECHANISMS, OAUTHBEARER)


class ClientAuth(Enum):
    """Kafka's ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files of a server certificate, which replaces the certificate that the broker creates."""

    certificate: str
    """PEM file of the certificate, followed by intermediate certificates."""
    key: str
    """PEM file of the private key."""
    ca: str
    """PEM file of the authority that signed the certificate, which clients must trust."""
    key_password: str | None = field(default=None, repr=False)
    """Password of an encrypted key, as plain text, `env:NAME` or `file:PATH`."""
    client_ca: str | None = None
    """PEM file of the authorities that sign clients' certificates; default: `ca`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings(PlainSettings):
    """The security settings of a broker that are not plain."""

    tls: bool | TlsFiles = False
    """True if clients must use TLS; a certificate authority and a certificate are generated, unless
    files are given.
    """
    sasl: Mapping[str, str] | None = field(default=None, repr=False)
    """Passwords by user name; if set, clients must authenticate. A password can be specified as
    ``env:NAME`` or ``file:PATH``.
    """
    sasl_mechanisms: Sequence[str] | None = None
    """The enabled mechanisms. None enables PLAIN and SCRAM if `sasl` is set. OAUTHBEARER does not
    require `sasl`.
    """
    oauthbearer_validator: TokenValidator = validate_unsecured
    """Validates a token and returns its user. The default accepts unsigned tokens."""
    denials: Sequence[str] = ()
    """Rules that deny operations to users, in the format of `kafkaprod broker --deny`."""

    def check_security(self) -> None:
        """Check the settings.

        Raises:
            ConfigError: settings are incompatible, or a value is invalid.
        """
        if not isinstance(self.tls, (bool, TlsFiles)):
            raise ConfigError(
                f"tls is a {type(self.tls).__name__}",
                hint="Set True, False, or TlsFiles with your own certificate.",
            )
        if self.client_auth is not ClientAuth.NONE and not self.tls:
            raise ConfigError(
                f"client_certificates is {self.client_certificates}, but TLS is not enabled",
                hint="Also set tls.",
            )
        _check_users(self.sasl, self.sasl_mechanisms)
        if unknown := [name for name in self.mechanisms if name not in _MECHANISMS]:
            raise ConfigError(
                f"unknown mechanism {unknown[0]} in sasl_mechanisms",
                hint=f"Mechanisms: {', '.join(_MECHANISMS)}.",
            )
        if self.scram_iterations < MIN_SCRAM_ITERATIONS:
            raise ConfigError(
                f"scram_iterations is {self.scram_iterations}",
                hint=f"Kafka's minimum is {MIN_SCRAM_ITERATIONS}.",
            )
        for denial in self.denials:
            parse_denial(denial)

    @property
    def client_auth(self) -> ClientAuth:
        """Kafka's ssl.client.auth.

        Raises:
            ConfigError: `client_certificates` is unknown.
        """
        try:
            return ClientAuth(self.client_certificates or "none")
        except ValueError:
            raise ConfigError(
                f"client_certificates is {self.client_certificates}",
                hint="Set required, requested or none.",
            ) from None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled mechanisms; by default, the password mechanisms if there are users."""
        if self.sasl_mechanisms is not None:
            return tuple(self.sasl_mechanisms)
        return _PASSWORD_MECHANISMS if self.sasl else ()

    @property
    def protocol(self) -> str:
        """Kafka's security.protocol."""
        if self.mechanisms:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"


def _check_users(sasl: object, named: Sequence[str] | None) -> None:
    """Check the setting `sasl`.

    Raises:
        ConfigError: the setting is not a mapping of strings, contains an empty name or password,
            or has no users although users are required.
    """
    needs_users = [name for name in named or () if name in _PASSWORD_MECHANISMS]
    if sasl is None and not needs_users:
        return
    if sasl is not None and not isinstance(sasl, Mapping):
        raise ConfigError(f"sasl is a {type(sasl).__name__}, not a dict", hint=_USERS)
    if not sasl and (needs_users or named is None):
        problem = f"sasl_mechanisms contains {needs_users[0]}" if needs_users else "sasl is set"
        raise ConfigError(f"{problem}, but there are no users, so nobody can log in", hint=_USERS)
    for user, password in (sasl or {}).items():
        if not isinstance(user, str) or not isinstance(password, str):
            raise ConfigError("sasl has a user or a password that is not a string", hint=_USERS)
        if not user or not password:
            raise ConfigError(
                "sasl has a user without a name or without a password",
                hint="Kafka's clients require both.",
            )


def reveal_password(user: str, password: str) -> str:
    """Return a user's password. A reference is resolved.

    Raises:
        ConfigError: the reference cannot be resolved.
    """
    return reveal_secret(Secret(password, f"sasl of {user}"))


def reveal_secret(secret: Secret) -> str:
    """Return the value of a secret of the broker.

    Raises:
        ConfigError: a reference cannot be resolved in this process.
    """
    try:
        return secret.reveal()
    except ConfigError as error:
        raise ConfigError(
            error.message,
            hint="The broker resolves env:NAME and file:PATH when it starts: set the variable for "
            "its process, or make the file readable by it.",
        ) from None
