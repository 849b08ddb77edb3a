"""Client configurations that connect to a secured Kafka, with the option names of the Java client.

Text in braces is a key of `SecuredKafka.placeholders`. Spark's built-in sink is the reference: it
accepts every configuration unless `jvm` is False.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from tests.support.security.kerberos import REALM, SERVICE
from tests.support.security.listeners import Listener
from tests.support.security.users import User, password

_SECURITY = "org.apache.kafka.common.security"
_OAUTH = f"{_SECURITY}.oauthbearer"
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "{tls}/trust.pem"}
PEM_KEYS = {"ssl.keystore.type": "PEM"}


class Secured(Protocol):
    """A cluster with secured listeners."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        """Return the values of the names in braces."""

    def servers(self, listener: Listener) -> str:
        """Return host:port of a listener."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A listener and the client options to connect to it.

    `options`: without the prefix `kafka.` and without bootstrap.servers. `jvm`: True if Spark's
    built-in sink accepts the options.
    """

    name: str
    listener: Listener
    options: Mapping[str, str] = field(default_factory=dict)
    _: KW_ONLY
    jvm: bool = True

    def java_options(self, kafka: Secured) -> dict[str, str]:
        """Return the options with the names of the Java client."""
        filled = {name: text.format(**kafka.placeholders) for name, text in self.options.items()}
        return {**broker_options(kafka, self.listener), **filled}

    def spark_options(self, kafka: Secured) -> dict[str, str]:
        """Return the options for `df.write`, with the prefix `kafka.`."""
        return {f"kafka.{name}": value for name, value in self.java_options(kafka).items()}


_TLS = (
    ClientConfig("SSL, PEM file", Listener.SSL, TRUST),
    ClientConfig(
        "SSL, PEM inline",
        Listener.SSL,
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "{ca}"},
    ),
    ClientConfig(
        "SSL, JKS",
        Listener.SSL,
        {
            "ssl.truststore.location": "{tls}/trust.jks",
            "ssl.truststore.password": "{store_password}",
        },
    ),
    ClientConfig(
        "SSL, JKS without its password",
        Listener.SSL,
        {"ssl.truststore.location": "{tls}/trust.jks"},
    ),
    ClientConfig(
        "SSL, PKCS12",
        Listener.SSL,
        {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": "{tls}/trust.p12",
            "ssl.truststore.password": "{store_password}",
        },
    ),
    ClientConfig(
        "SSL, only TLS 1.2",
        Listener.TLS12,
        {**TRUST, "ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.2"},
    ),
    ClientConfig("SSL, server with only TLS 1.2", Listener.TLS12, TRUST),
    ClientConfig(
        "SSL, with a cipher suite",
        Listener.TLS12,
        {**TRUST, "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
    ),
    ClientConfig(
        "SSL, host name not checked",
        Listener.WRONG_HOST,
        {**TRUST, "ssl.endpoint.identification.algorithm": ""},
    ),
)
_CLIENT_CERTIFICATES = (
    ClientConfig(
        "MTLS, PEM file",
        Listener.MTLS,
        {**TRUST, **PEM_KEYS, "ssl.keystore.location": "{tls}/client.pem"},
    ),
    ClientConfig(
        "MTLS, PEM inline",
        Listener.MTLS,
        {
            **TRUST,
            **PEM_KEYS,
            "ssl.keystore.certificate.chain": "{chain}",
            "ssl.keystore.key": "{key}",
        },
    ),
    ClientConfig(
        "MTLS, PEM inline, key encrypted",
        Listener.MTLS,
        {
            **TRUST,
            **PEM_KEYS,
            "ssl.keystore.certificate.chain": "{chain}",
            "ssl.keystore.key": "{pbes1_key}",
            "ssl.key.password": "{key_password}",
        },
    ),
    ClientConfig(
        "MTLS, PEM file, key encrypted",
        Listener.MTLS,
        {
            **TRUST,
            **PEM_KEYS,
            "ssl.keystore.location": "{tls}/client-pbes1.pem",
            "ssl.key.password": "{key_password}",
        },
    ),
    ClientConfig(
        name="MTLS, PEM file, key encrypted with AES",
        listener=Listener.MTLS,
        options={
            **TRUST,
            **PEM_KEYS,
            "ssl.keystore.location": "{tls}/client-pbes2.pem",
            "ssl.key.password": "{key_password}",
        },
        jvm=False,  # Java 17 cannot read PKCS#8 keys encrypted with PBES2.
    ),
    ClientConfig(
        "MTLS, PKCS12",
        Listener.MTLS,
        {
            **TRUST,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "{tls}/client.p12",
            "ssl.keystore.password": "{store_password}",
            "ssl.key.password": "{store_password}",
        },
    ),
    ClientConfig(
        "MTLS, JKS",
        Listener.MTLS,
        {
            **TRUST,
            "ssl.keystore.location": "{tls}/client.jks",
            "ssl.keystore.password": "{store_password}",
            "ssl.key.password": "{key_password}",
        },
    ),
)
_NOT_IN_JVM = (
    ClientConfig(
        "SASL_SSL, user name and password as options",
        Listener.SASL_SSL,
        {
            **TRUST,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": User.ALICE.value,
            "sasl.password": password(User.ALICE),
        },
        jvm=False,
    ),
)


def broker_options(kafka: Secured, listener: Listener) -> dict[str, str]:
    """Return the options of any client for the address and the protocol of a listener."""
    return {"bootstrap.servers": kafka.servers(listener), "security.protocol": listener.protocol}


def jaas(module: str, **options: str) -> str:
    """Return a value for sasl.jaas.config."""
    assignments = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{module} required {assignments};"


def password_options(mechanism: str, user: str, secret: str | None = None) -> dict[str, str]:
    """Return the options for PLAIN or SCRAM."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    secret = password(user) if secret is None else secret
    login = jaas(f"{_SECURITY}.{module}", username=user, password=secret)
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def librdkafka_password(mechanism: str, user: str, secret: str | None = None) -> dict[str, str]:
    """Return the options of confluent-kafka for PLAIN or SCRAM."""
    secret = password(user) if secret is None else secret
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": secret}


def credentials_options(
    user: str, url: str = "{token_url}", trust: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the options for OAUTHBEARER with a client ID and secret (KIP-768).

    `trust`: JAAS options for an https issuer.
    """
    login_options = {
        "clientId": user,
        "clientSecret": password(user),
        "scope": "kafka",
        **(trust or {}),
    }
    login = jaas(f"{_OAUTH}.OAuthBearerLoginModule", **login_options)
    handler = f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler"
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": login,
        "sasl.login.callback.handler.class": handler,
        "sasl.oauthbearer.token.endpoint.url": url,
    }


_HTTPS_ISSUER = ClientConfig(
    "SASL_SSL, https issuer",
    Listener.SASL_SSL,
    {**TRUST, **credentials_options(User.ALICE.value, "{https_token_url}", TRUST)},
)


def keytab_options(user: str, keytab: str = "{keytab}") -> dict[str, str]:
    """Return the options for GSSAPI with a keytab."""
    login = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{keytab}" principal="{user}@{REALM}";'
    )
    return {
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": login,
        "sasl.kerberos.service.name": SERVICE,
    }


ALICE_LOGINS = {
    **{
        name: password_options(name, User.ALICE)
        for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
    "OAUTHBEARER": credentials_options(User.ALICE),
    "GSSAPI": keytab_options(User.ALICE),
}
"""Login options of ALICE for each SASL mechanism."""


def _sasl_clients() -> tuple[ClientConfig, ...]:
    """Return a configuration for each mechanism, with and without TLS."""
    return tuple(
        ClientConfig(f"{listener.name} {mechanism}", listener, {**trust, **options})
        for listener, trust in ((Listener.SASL_PLAINTEXT, {}), (Listener.SASL_SSL, TRUST))
        for mechanism, options in ALICE_LOGINS.items()
    )


CLIENT_CONFIGS = (*_TLS, *_CLIENT_CERTIFICATES, *_sasl_clients(), _HTTPS_ISSUER, *_NOT_IN_JVM)
