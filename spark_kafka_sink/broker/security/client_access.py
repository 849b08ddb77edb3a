"""What a client has to be told to get in: options with Kafka's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.security.settings import OAUTHBEARER, PLAIN, revealed
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.security.certificates import Certificate
    from spark_kafka_sink.broker.security.settings import SecuritySettings

_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES: Final = {
    "SCRAM-SHA-512": _SCRAM,
    "SCRAM-SHA-256": _SCRAM,
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""Java's login modules by mechanism, the mechanisms in order of preference."""


class ClientAccess:
    """The passwords that users were given, which the server's side has no use for.

    Args:
        settings: those of the broker.
    """

    __slots__ = ("_passwords", "_settings")

    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._passwords = dict(settings.passwords)

    def set_password(self, user: str, password: str) -> None:
        """Note a user's password."""
        self._passwords[user] = password

    def remove(self, user: str) -> None:
        """Forget a user."""
        self._passwords.pop(user, None)

    def login(self, user: str | None, mechanism: str | None) -> dict[str, str]:
        """The options sasl.mechanism and sasl.jaas.config; none where the broker has no SASL.

        Raises:
            ConfigError: there is no such user, or no such mechanism.
        """
        if not self._settings.mechanisms:
            return {}
        chosen = mechanism or next(m for m in _MODULES if m in self._settings.mechanisms)
        if chosen not in self._settings.mechanisms:
            raise ConfigError(
                f"the broker does not serve {chosen}",
                hint=f"It serves {', '.join(self._settings.mechanisms)}",
            )
        options = self._token(user) if chosen == OAUTHBEARER else self._password(user)
        jaas = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
        return {
            "sasl.mechanism": chosen,
            "sasl.jaas.config": f"{_MODULES[chosen]} required {jaas};",
        }

    @staticmethod
    def _token(user: str | None) -> dict[str, str]:
        """A token that nobody signed: who asks for another kind has to bring one."""
        return {"unsecuredLoginStringClaim_sub": user or "user"}

    def _password(self, user: str | None) -> dict[str, str]:
        name = user or self._only_user()
        if name not in self._passwords:
            raise ConfigError(
                f"the broker has no user {name}", hint=f"There are: {', '.join(self._passwords)}"
            )
        return {"username": name, "password": revealed(name, self._passwords[name])}

    def _only_user(self) -> str:
        if len(self._passwords) != 1:
            raise ConfigError(
                "client_options needs the name of a user",
                hint=f"There are: {', '.join(self._passwords)}",
            )
        return next(iter(self._passwords))


def trust(ca_certificate: str | None, own: Certificate | None) -> dict[str, str]:
    """The options of the truststore and, with a certificate of the client's, of the keystore."""
    found: dict[str, str] = {}
    if ca_certificate is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca_certificate}
    if own is not None:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": own.certificate,
            "ssl.keystore.key": own.key,
        }
    return found


def _quoted(text: str) -> str:
    """A value of a JAAS entry, which Java reads with StreamTokenizer."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
