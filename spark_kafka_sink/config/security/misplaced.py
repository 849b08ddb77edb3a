"""Keys and logins in options that are no place for them: refused before anything reads the value.

What reads it may be a file name, a request or a log, and would carry the secret there.
"""

from __future__ import annotations

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import SecretKind, described, secret_kind

_LOGIN_PLACE = "sasl.jaas.config"
_PEM_PLACES = frozenset(
    {
        "ssl.truststore.certificates",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "https.ca.pem",
        _LOGIN_PLACE,  # a login may bring the certificates of its issuer
    }
)
_BELONGS = {
    SecretKind.PRIVATE_KEY: "A private key belongs into kafka.ssl.keystore.key, and an option that "
    "ends with location takes the path of its file.",
    SecretKind.PEM: "Certificates belong into kafka.ssl.truststore.certificates, or the client's "
    "own into kafka.ssl.keystore.certificate.chain; an option that ends with location takes the "
    "path of their file.",
    SecretKind.LOGIN: "A login belongs into kafka.sasl.jaas.config.",
}


def refuse_misplaced(option: str, key: str, text: str) -> None:
    """Refuse a value that looks like PEM or JAAS in an option that takes neither.

    Args:
        option: the option's name in the tables.
        key: the name that the user gave it by.
        text: the value.

    Raises:
        ConfigError: it is in the wrong place; the message does not repeat it.
    """
    kind = secret_kind(text)
    if kind is None or kind not in _BELONGS:
        return
    if option not in (frozenset({_LOGIN_PLACE}) if kind is SecretKind.LOGIN else _PEM_PLACES):
        raise ConfigError(f"option {key} holds {described(text)}", hint=_BELONGS[kind])


def refuse_secret_name(key: str) -> None:
    """Refuse a PEM or JAAS text where an option's name should be.

    Raises:
        ConfigError: it is one; the message does not repeat it.
    """
    if secret_kind(key) in _BELONGS:
        raise ConfigError(
            f"the name of an option is {described(key)}",
            hint="Are name and value the wrong way round? The name comes first.",
        )
