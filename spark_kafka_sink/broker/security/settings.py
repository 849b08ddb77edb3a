"""Types of the security settings of a broker, and the resolution of secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"


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
