"""Names of security options that are not in the table, and the check for misplaced secrets.

Names that are not in the table are aliases, or they are ignored or rejected. Private keys,
certificates and logins in the wrong option are rejected before they are used, because otherwise
they might appear in a file name, a request or a log.

Source: Kafka 4.3's SslConfigs and SaslConfigs, librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import SecretKind, describe_text, secret_kind
from spark_kafka_sink.config.aliases import Alias
from spark_kafka_sink.config.option_definition import names_in
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping


SECURITY_NAMES = frozenset(option.name for option in SECURITY_OPTIONS)

SECURITY_ALIASES: Mapping[str, Alias] = {
    "sasl.mechanisms": Alias("sasl.mechanism"),
    "sasl.oauthbearer.client.id": Alias("sasl.oauthbearer.client.credentials.client.id"),
    "sasl.oauthbearer.client.secret": Alias("sasl.oauthbearer.client.credentials.client.secret"),
    "ssl.ca.pem": Alias("ssl.truststore.certificates"),
    "ssl.certificate.pem": Alias("ssl.keystore.certificate.chain"),
    "ssl.key.pem": Alias("ssl.keystore.key"),
}
"""librdkafka's names for options that have a different name in Java."""

IGNORED_JAVA_SECURITY_KEYS = names_in(
    """
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.sub.claim.name ssl.keymanager.algorithm ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file
    """
)
"""Options that affect only the JVM, the broker's token checks, or the KDC's tickets, and options
of client assertions, which a different option selects; that option is rejected.
"""

IGNORED_LIBRDKAFKA_SECURITY_KEYS = frozenset(
    {
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.pem",
        "ssl.ca.certificate.stores",
        "ssl.curves.list",
        "ssl.sigalgs.list",
    }
)
"""Options for client assertions or Windows, and settings that Python's ssl does not support, for
which OpenSSL's defaults are safe.
"""

IGNORED_BROKER_SECURITY_KEYS = names_in(
    """
    connections.max.reauth.ms principal.builder.class sasl.enabled.mechanisms
    sasl.kerberos.principal.to.local.rules sasl.mechanism.inter.broker.protocol
    sasl.server.callback.handler.class sasl.server.max.receive.size security.inter.broker.protocol
    ssl.allow.dn.changes ssl.allow.san.changes ssl.client.auth ssl.principal.mapping.rules
    """
)
"""Options of brokers, which published client files contain."""

IGNORED_SECURITY_KEYS = (
    IGNORED_JAVA_SECURITY_KEYS | IGNORED_LIBRDKAFKA_SECURITY_KEYS | IGNORED_BROKER_SECURITY_KEYS
)

_C_ONLY = "it requires a pointer or callback of a C program"
_ENGINE = "keys in an OpenSSL engine or provider are not supported; use PEM, PKCS12 or JKS"
_UNSECURED = "for unsigned tokens use unsecuredLoginStringClaim_sub in sasl.jaas.config"

REJECTED_SECURITY_KEYS: Mapping[str, str] = {
    "enable.sasl.oauthbearer.unsecure.jwt": _UNSECURED,
    "oauthbearer_token_refresh_cb": _C_ONLY,
    "sasl.oauthbearer.config": _UNSECURED,
    "sasl.oauthbearer.metadata.authentication.type": (
        "tokens of a cloud metadata service cannot be fetched; write the token to a file and set "
        "kafka.sasl.oauthbearer.token.endpoint.url=file:///path"
    ),
    "ssl.certificate.verify_cb": _C_ONLY,
    "ssl.crl.location": "certificate revocation lists are not supported, and ignoring them "
    "would be unsafe",
    "ssl.engine.factory.class": "Java classes cannot be loaded; use the ssl.* options",
    "ssl.engine.id": _ENGINE,
    "ssl.engine.location": _ENGINE,
    "ssl.providers": _ENGINE,
    "ssl_ca": _C_ONLY,
    "ssl_certificate": _C_ONLY,
    "ssl_engine_callback_data": _C_ONLY,
    "ssl_key": _C_ONLY,
}
"""Options that are unsafe to ignore, with the reason why each is not supported."""

SECURITY_PREFIXES = ("security.", "sasl.", "ssl.", "enable.sasl.", "enable.ssl.", "https.")
"""Prefixes of security options; an unknown option is an error even without the prefix `kafka.`."""
_JAAS_OPTION = "sasl.jaas.config"
_PEM_OPTIONS = frozenset(
    {
        "ssl.truststore.certificates",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "https.ca.pem",
        _JAAS_OPTION,  # The login can contain certificates for its issuer.
    }
)
_PLACEMENT_HINTS = {
    SecretKind.PRIVATE_KEY: "Set a private key with kafka.ssl.keystore.key; options that end with "
    "location take the path of a file.",
    SecretKind.PEM: "Set trusted certificates with kafka.ssl.truststore.certificates, and the "
    "client's certificate with kafka.ssl.keystore.certificate.chain; options that end with "
    "location take the path of a file.",
    SecretKind.LOGIN: "Set a login with kafka.sasl.jaas.config.",
}


def reject_misplaced(option: str, key: str, text: str) -> None:
    """Raise if a value looks like PEM or JAAS and the option does not accept it.

    Args:
        option: the option's name in the tables.
        key: the option's name as the user wrote it.
        text: the value.

    Raises:
        ConfigError: the value is in the wrong option; the message does not show the value.
    """
    kind = secret_kind(text)
    if kind is None or kind not in _PLACEMENT_HINTS:
        return
    if option not in (frozenset({_JAAS_OPTION}) if kind is SecretKind.LOGIN else _PEM_OPTIONS):
        raise ConfigError(
            f"option {key} contains {describe_text(text)}", hint=_PLACEMENT_HINTS[kind]
        )


def reject_secret_name(key: str) -> None:
    """Raise if the name of an option is PEM or JAAS text.

    Raises:
        ConfigError: the name is PEM or JAAS text, which the message does not show.
    """
    if secret_kind(key) in _PLACEMENT_HINTS:
        raise ConfigError(
            f"an option name contains {describe_text(key)}",
            hint="Name and value might be swapped: the name comes first.",
        )
