"""The table of the security options, given as `kafka.<name>`.

Names, defaults and importance are those of Kafka 4.3's SecurityConfig, SslConfigs and SaslConfigs.
Rows that Java does not have are librdkafka's, from its CONFIGURATION.md. Options that Java types as
a list or a double are texts here, and `tls` and `sasl` parse them.
"""

from __future__ import annotations

from typing import Any

from spark_kafka_sink.config.option import Importance, Kind, Option, Value

HIGH, LOW = Importance.HIGH, Importance.LOW


def _text(name: str, java: Value, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.STRING, java=java, doc=doc, **more)


def _secret(name: str, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.PASSWORD, java=None, doc=doc, **more)


def _number(name: str, java: Value, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.INT, java=java, doc=doc, importance=LOW, **more)


def _flag(name: str, java: Value, doc: str, **more: Any) -> Option:
    return Option(name=name, kind=Kind.BOOLEAN, java=java, doc=doc, importance=LOW, **more)


_PROTOCOL = (
    _text(
        "security.protocol",
        "PLAINTEXT",
        "How connections are secured: TLS (SSL), a login (SASL_PLAINTEXT), both (SASL_SSL).",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
)

_TLS = (
    _text(
        "ssl.truststore.location",
        None,
        "File of the certificate authorities to believe; without one, the system's.",
        importance=HIGH,
    ),
    _secret("ssl.truststore.password", "Password of that file; not for PEM.", importance=HIGH),
    _text("ssl.truststore.type", "JKS", "Its format.", choices=("JKS", "PKCS12", "PEM")),
    _secret(
        "ssl.truststore.certificates",
        "The certificates themselves as PEM, instead of a file.",
        importance=HIGH,
    ),
    _text(
        "ssl.ca.location",
        None,
        "librdkafka's: a PEM file of certificate authorities; probe: the system's.",
        of_java=False,
    ),
    _text(
        "ssl.keystore.location",
        None,
        "File of the client's own certificate and key, for mutual TLS.",
        importance=HIGH,
    ),
    _secret(
        "ssl.keystore.password",
        "Password of that file; not for PEM.",
        importance=HIGH,
    ),
    _text("ssl.keystore.type", "JKS", "Its format.", choices=("JKS", "PKCS12", "PEM")),
    _secret(
        "ssl.keystore.certificate.chain",
        "The client's certificate chain as PEM, instead of a file.",
        importance=HIGH,
    ),
    _secret("ssl.keystore.key", "Its private key as PEM, PKCS#8.", importance=HIGH),
    _secret(
        "ssl.key.password",
        "Password of the private key; of a JKS or PKCS12 file where it is not the file's own.",
        importance=HIGH,
    ),
    _text(
        "ssl.certificate.location",
        None,
        "librdkafka's: a PEM file of the client's certificate chain.",
        of_java=False,
    ),
    _text(
        "ssl.key.location",
        None,
        "librdkafka's: a PEM file of its private key.",
        of_java=False,
    ),
    _text(
        "ssl.endpoint.identification.algorithm",
        "https",
        "The broker's certificate must name the host (https), or need not (empty, or none).",
        choices=("https", "none", ""),
        importance=LOW,
    ),
    _text(
        "ssl.enabled.protocols",
        "TLSv1.2,TLSv1.3",
        "Versions of TLS to offer, with commas between; older ones are left out.",
    ),
    _text(
        "ssl.protocol",
        "TLSv1.3",
        "Taken as Java's and without effect: ssl.enabled.protocols says the versions.",
        choices=("TLS", "TLSv1.2", "TLSv1.3"),
    ),
    _text(
        "ssl.cipher.suites",
        "",
        "Cipher suites to offer, by IANA's or OpenSSL's names; empty for the library's choice.",
        importance=LOW,
    ),
    _flag(
        "enable.ssl.certificate.verification",
        True,
        "librdkafka's; false is refused: anybody could then be the broker.",
        of_java=False,
    ),
)

_SASL = (
    _text(
        "sasl.mechanism",
        "GSSAPI",
        "How the client says who it is.",
        choices=(
            "GSSAPI",
            "PLAIN",
            "SCRAM-SHA-256",
            "SCRAM-SHA-512",
            "OAUTHBEARER",
            "AWS_MSK_IAM",
        ),
    ),
    _secret(
        "sasl.jaas.config",
        'Java\'s login: `LoginModule required name="value" ...;`. The whole text, and each secret '
        "in it, may be env:NAME or file:PATH.",
    ),
    _secret("sasl.username", "librdkafka's: the user of PLAIN and SCRAM.", of_java=False),
    _secret("sasl.password", "librdkafka's: the user's password.", of_java=False),
    _text(
        "sasl.login.callback.handler.class",
        None,
        "How OAUTHBEARER gets its token; Java's own classes and Amazon's are known by name.",
    ),
    _text(
        "sasl.client.callback.handler.class",
        None,
        "Java's own class and Amazon's are known by name.",
    ),
    _text("sasl.login.class", None, "Java's own classes are known by name."),
)

_TOKENS = (
    _text(
        "sasl.oauthbearer.token.endpoint.url",
        None,
        "The issuer's URL of tokens; file:///path reads a token from a file at each login.",
    ),
    _secret("sasl.oauthbearer.client.credentials.client.id", "The client's id at the issuer."),
    _secret("sasl.oauthbearer.client.credentials.client.secret", "The client's secret there."),
    _text("sasl.oauthbearer.scope", None, "Scope of the token that is asked for."),
    _flag(
        "sasl.oauthbearer.header.urlencode",
        False,
        "URL-encode id and secret in the request's header (RFC 6749).",
    ),
    _text(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Default-, ClientCredentials- and FileJwtRetriever of Java's are known by name.",
    ),
    _text(
        "sasl.oauthbearer.method",
        "default",
        "librdkafka's; oidc: ask the issuer by client id and secret.",
        choices=("default", "oidc"),
        of_java=False,
    ),
    _text(
        "sasl.oauthbearer.grant.type",
        "client_credentials",
        "librdkafka's.",
        choices=("client_credentials",),
        of_java=False,
    ),
    _text(
        "sasl.oauthbearer.extensions",
        None,
        "librdkafka's: SASL extensions as name=value,name=value.",
        of_java=False,
    ),
    _text(
        "https.ca.location",
        None,
        "librdkafka's: a PEM file of the authorities to believe of the issuer; probe: the "
        "system's. Java's place for it is sasl.jaas.config: ssl.truststore.location=\"...\".",
        of_java=False,
    ),
    _secret("https.ca.pem", "librdkafka's: the same as PEM text.", of_java=False),
    _number(
        "sasl.login.connect.timeout.ms",
        None,
        "Time to wait for a connection to the issuer; 10,000 where it is not set.",
    ),
    _number(
        "sasl.login.read.timeout.ms",
        None,
        "Time to wait for the issuer's answer; 10,000 where it is not set.",
    ),
    Option(
        name="sasl.login.retry.backoff.ms",
        kind=Kind.LONG,
        java=100,
        importance=LOW,
        doc="Pause before the issuer is asked again; it doubles.",
    ),
    Option(
        name="sasl.login.retry.backoff.max.ms",
        kind=Kind.LONG,
        java=10_000,
        importance=LOW,
        doc="Longest such pause, and all of them together, as in Java.",
    ),
    _text(
        "sasl.login.refresh.window.factor",
        "0.8",
        "Part of a token's lifetime, 0.5 to 1.0, after which a new one is fetched.",
        importance=LOW,
    ),
    _text(
        "sasl.login.refresh.window.jitter",
        "0.05",
        "Largest random addition to that part, 0.0 to 0.25.",
        importance=LOW,
    ),
    _number(
        "sasl.login.refresh.min.period.seconds",
        60,
        "Least age at which a token is replaced.",
        high=900,
    ),
    _number(
        "sasl.login.refresh.buffer.seconds",
        300,
        "Time before its end by which a token is replaced.",
        high=3600,
    ),
)

_KERBEROS = (
    _text(
        "sasl.kerberos.service.name",
        None,
        "First part of the brokers' principals, most often kafka; or serviceName in the login.",
    ),
    _text(
        "sasl.kerberos.principal",
        None,
        "librdkafka's: the client's principal.",
        of_java=False,
    ),
    _text("sasl.kerberos.keytab", None, "librdkafka's: path of its keytab.", of_java=False),
)

SECURITY_OPTIONS: tuple[Option, ...] = (*_PROTOCOL, *_TLS, *_SASL, *_TOKENS, *_KERBEROS)
"""Options given as `kafka.<name>`."""
