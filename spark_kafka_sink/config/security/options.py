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
        "Security protocol: PLAINTEXT, TLS (SSL), login (SASL_PLAINTEXT), or both (SASL_SSL).",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
)

_TLS = (
    _text(
        "ssl.truststore.location",
        None,
        "File with the trusted certificate authorities; default: the system's.",
        importance=HIGH,
    ),
    _secret("ssl.truststore.password", "Password of this file; not for PEM.", importance=HIGH),
    _text("ssl.truststore.type", "JKS", "Its format.", choices=("JKS", "PKCS12", "PEM")),
    _secret(
        "ssl.truststore.certificates",
        "Trusted certificates as PEM text, instead of a file.",
        importance=HIGH,
    ),
    _text(
        "ssl.ca.location",
        None,
        "librdkafka option: PEM file with the trusted certificate authorities; probe: the "
        "system's.",
        of_java=False,
    ),
    _text(
        "ssl.keystore.location",
        None,
        "File with the client's certificate and key, for mutual TLS.",
        importance=HIGH,
    ),
    _secret(
        "ssl.keystore.password",
        "Password of this file; not for PEM.",
        importance=HIGH,
    ),
    _text("ssl.keystore.type", "JKS", "Its format.", choices=("JKS", "PKCS12", "PEM")),
    _secret(
        "ssl.keystore.certificate.chain",
        "The client's certificate chain as PEM text, instead of a file.",
        importance=HIGH,
    ),
    _secret("ssl.keystore.key", "The client's private key as PEM text (PKCS#8).", importance=HIGH),
    _secret(
        "ssl.key.password",
        "Password of the private key; for JKS and PKCS12 only if it differs from the file's "
        "password.",
        importance=HIGH,
    ),
    _text(
        "ssl.certificate.location",
        None,
        "librdkafka option: PEM file with the client's certificate chain.",
        of_java=False,
    ),
    _text(
        "ssl.key.location",
        None,
        "librdkafka option: PEM file with the client's private key.",
        of_java=False,
    ),
    _text(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Verify that the broker's certificate matches the host name (https), or not (empty or "
        "none).",
        choices=("https", "none", ""),
        importance=LOW,
    ),
    _text(
        "ssl.enabled.protocols",
        "TLSv1.2,TLSv1.3",
        "TLS versions to offer, separated by commas; versions before TLSv1.2 are ignored.",
    ),
    _text(
        "ssl.protocol",
        "TLSv1.3",
        "Accepted for compatibility with Java, without effect: use ssl.enabled.protocols.",
        choices=("TLS", "TLSv1.2", "TLSv1.3"),
    ),
    _text(
        "ssl.cipher.suites",
        "",
        "Cipher suites to offer, with IANA or OpenSSL names; empty: OpenSSL's default.",
        importance=LOW,
    ),
    _flag(
        "enable.ssl.certificate.verification",
        True,
        "librdkafka option; false is refused because any server could then impersonate the broker.",
        of_java=False,
    ),
)

_SASL = (
    _text(
        "sasl.mechanism",
        "GSSAPI",
        "SASL mechanism.",
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
        'JAAS login as in Java: `LoginModule required name="value" ...;`. The whole text, and '
        "each secret in it, may be env:NAME or file:PATH.",
    ),
    _secret("sasl.username", "librdkafka option: user name for PLAIN and SCRAM.", of_java=False),
    _secret("sasl.password", "librdkafka option: password of the user.", of_java=False),
    _text(
        "sasl.login.callback.handler.class",
        None,
        "Login callback handler class; Kafka's OAUTHBEARER handlers and Amazon's handler are "
        "supported.",
    ),
    _text(
        "sasl.client.callback.handler.class",
        None,
        "Client callback handler class; Kafka's and Amazon's classes are supported.",
    ),
    _text("sasl.login.class", None, "Login class; Kafka's classes are supported."),
)

_TOKENS = (
    _text(
        "sasl.oauthbearer.token.endpoint.url",
        None,
        "Token endpoint URL of the OAuth issuer; file:///path reads a token from a file at "
        "each login.",
    ),
    _secret("sasl.oauthbearer.client.credentials.client.id", "OAuth client id."),
    _secret("sasl.oauthbearer.client.credentials.client.secret", "OAuth client secret."),
    _text("sasl.oauthbearer.scope", None, "Scope of the requested token."),
    _flag(
        "sasl.oauthbearer.header.urlencode",
        False,
        "URL-encode client id and secret in the authorization header (RFC 6749).",
    ),
    _text(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Java's token retriever class; DefaultJwtRetriever, ClientCredentialsJwtRetriever and "
        "FileJwtRetriever are supported.",
    ),
    _text(
        "sasl.oauthbearer.method",
        "default",
        "librdkafka option; oidc: request tokens from the issuer with client id and secret.",
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
        "librdkafka option: SASL extensions as name=value,name=value.",
        of_java=False,
    ),
    _text(
        "https.ca.location",
        None,
        "librdkafka option: PEM file with the certificate authorities trusted for the issuer; "
        "probe: the system's. Java's equivalent is ssl.truststore.location=\"...\" in "
        "sasl.jaas.config.",
        of_java=False,
    ),
    _secret(
        "https.ca.pem",
        "librdkafka option: the certificate authorities trusted for the issuer as PEM text.",
        of_java=False,
    ),
    _number(
        "sasl.login.connect.timeout.ms",
        None,
        "Connection timeout for requests to the issuer; default: 10,000.",
    ),
    _number(
        "sasl.login.read.timeout.ms",
        None,
        "Read timeout for responses of the issuer; default: 10,000.",
    ),
    Option(
        name="sasl.login.retry.backoff.ms",
        kind=Kind.LONG,
        java=100,
        importance=LOW,
        doc="Wait before the first retry of a request to the issuer; doubled after each retry.",
    ),
    Option(
        name="sasl.login.retry.backoff.max.ms",
        kind=Kind.LONG,
        java=10_000,
        importance=LOW,
        doc="Maximum wait between retries, and maximum total wait, as in Java.",
    ),
    _text(
        "sasl.login.refresh.window.factor",
        "0.8",
        "Fraction of a token's lifetime, 0.5 to 1.0, after which it is refreshed.",
        importance=LOW,
    ),
    _text(
        "sasl.login.refresh.window.jitter",
        "0.05",
        "Maximum random addition to that fraction, 0.0 to 0.25.",
        importance=LOW,
    ),
    _number(
        "sasl.login.refresh.min.period.seconds",
        60,
        "Minimum time between two refreshes of a token.",
        high=900,
    ),
    _number(
        "sasl.login.refresh.buffer.seconds",
        300,
        "Time before a token's expiry at which it is refreshed at the latest.",
        high=3600,
    ),
)

_KERBEROS = (
    _text(
        "sasl.kerberos.service.name",
        None,
        "Service name: first part of the brokers' Kerberos principals, usually kafka. Or set "
        "serviceName in sasl.jaas.config.",
    ),
    _text(
        "sasl.kerberos.principal",
        None,
        "librdkafka option: Kerberos principal of the client.",
        of_java=False,
    ),
    _text(
        "sasl.kerberos.keytab",
        None,
        "librdkafka option: path of the client's keytab.",
        of_java=False,
    ),
)

SECURITY_OPTIONS: tuple[Option, ...] = (*_PROTOCOL, *_TLS, *_SASL, *_TOKENS, *_KERBEROS)
"""Options given as `kafka.<name>`."""
