"""The table of the security options, which are set as `kafka.<name>`.

Names, defaults and importance are taken from Kafka 4.3's SecurityConfig, SslConfigs and
SaslConfigs. Options that Java does not have come from librdkafka's CONFIGURATION.md. Options that
are lists or doubles in Java are strings in this table; `tls` and `sasl` parse them.
"""

from __future__ import annotations

from spark_kafka_sink.config.option import HIGH, LOW, Option, flag, integer, long, secret, text
from spark_kafka_sink.config.security.model import Mechanism, SecurityProtocol, StoreType

_STORES = tuple(each.value for each in StoreType)

_PROTOCOL = (
    text(
        "security.protocol",
        "PLAINTEXT",
        "Security protocol: PLAINTEXT, TLS (SSL), login (SASL_PLAINTEXT), or both (SASL_SSL).",
        choices=tuple(each.value for each in SecurityProtocol),
    ),
)

_TLS = (
    text(
        "ssl.truststore.location",
        None,
        "File with the trusted certificate authorities; default: the system's authorities.",
        importance=HIGH,
    ),
    secret(
        "ssl.truststore.password", None, "Password of the truststore; not for PEM.", importance=HIGH
    ),
    text("ssl.truststore.type", "JKS", "Format of the truststore.", choices=_STORES),
    secret(
        "ssl.truststore.certificates",
        None,
        "Trusted certificates as PEM text, instead of a file.",
        importance=HIGH,
    ),
    text(
        "ssl.ca.location",
        None,
        "librdkafka option: PEM file with the trusted certificate authorities; probe: the system's "
        "authorities.",
        of_java=False,
    ),
    text(
        "ssl.keystore.location",
        None,
        "File with the client's certificate and key, for mutual TLS.",
        importance=HIGH,
    ),
    secret(
        "ssl.keystore.password", None, "Password of the keystore; not for PEM.", importance=HIGH
    ),
    text("ssl.keystore.type", "JKS", "Format of the keystore.", choices=_STORES),
    secret(
        "ssl.keystore.certificate.chain",
        None,
        "The client's certificate chain as PEM text, instead of a file.",
        importance=HIGH,
    ),
    secret(
        "ssl.keystore.key", None, "The client's private key as PEM text (PKCS#8).", importance=HIGH
    ),
    secret(
        "ssl.key.password",
        None,
        "Password of the private key; for JKS and PKCS12 only if it differs from the file's "
        "password.",
        importance=HIGH,
    ),
    text(
        "ssl.certificate.location",
        None,
        "librdkafka option: PEM file with the client's certificate chain.",
        of_java=False,
    ),
    text(
        "ssl.key.location",
        None,
        "librdkafka option: PEM file with the client's private key.",
        of_java=False,
    ),
    text(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Verify that the broker's certificate matches the host name (https), or not (empty or "
        "none).",
        choices=("https", "none", ""),
        importance=LOW,
    ),
    text(
        "ssl.enabled.protocols",
        "TLSv1.2,TLSv1.3",
        "TLS versions to offer, separated by commas; versions before TLSv1.2 are ignored.",
    ),
    text(
        "ssl.protocol",
        "TLSv1.3",
        "Accepted for compatibility with Java, but has no effect: use ssl.enabled.protocols.",
        choices=("TLS", "TLSv1.2", "TLSv1.3"),
    ),
    text(
        "ssl.cipher.suites",
        "",
        "Cipher suites to offer, with IANA or OpenSSL names; empty: OpenSSL's default.",
        importance=LOW,
    ),
    flag(
        "enable.ssl.certificate.verification",
        True,
        "librdkafka option; false is rejected because any server could then impersonate the "
        "broker.",
        of_java=False,
        importance=LOW,
    ),
)

_SASL = (
    text(
        "sasl.mechanism",
        "GSSAPI",
        "SASL mechanism.",
        choices=tuple(each.value for each in Mechanism),
    ),
    secret(
        "sasl.jaas.config",
        None,
        'JAAS login as in Java: `LoginModule required name="value" ...;`. The whole text, and '
        "each secret in it, may be env:NAME or file:PATH.",
    ),
    secret(
        "sasl.username", None, "librdkafka option: user name for PLAIN and SCRAM.", of_java=False
    ),
    secret("sasl.password", None, "librdkafka option: password of the user.", of_java=False),
    text(
        "sasl.login.callback.handler.class",
        None,
        "Login callback handler class; Kafka's OAUTHBEARER handlers and Amazon's handler are "
        "supported.",
    ),
    text(
        "sasl.client.callback.handler.class",
        None,
        "Client callback handler class; Kafka's and Amazon's classes are supported.",
    ),
    text("sasl.login.class", None, "Login class; Kafka's classes are supported."),
)

_TOKENS = (
    text(
        "sasl.oauthbearer.token.endpoint.url",
        None,
        "Token endpoint URL of the OAuth issuer; file:///path reads a token from a file at "
        "each login.",
    ),
    secret("sasl.oauthbearer.client.credentials.client.id", None, "OAuth client id."),
    secret("sasl.oauthbearer.client.credentials.client.secret", None, "OAuth client secret."),
    text("sasl.oauthbearer.scope", None, "Scope of the requested token."),
    flag(
        "sasl.oauthbearer.header.urlencode",
        False,
        "URL-encode client id and secret in the authorization header (RFC 6749).",
        importance=LOW,
    ),
    text(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Java's token retriever class; DefaultJwtRetriever, ClientCredentialsJwtRetriever and "
        "FileJwtRetriever are supported.",
    ),
    text(
        "sasl.oauthbearer.method",
        "default",
        "librdkafka option; oidc: request tokens from the issuer with client id and secret.",
        choices=("default", "oidc"),
        of_java=False,
    ),
    text(
        "sasl.oauthbearer.grant.type",
        "client_credentials",
        "librdkafka option; only client_credentials is supported.",
        choices=("client_credentials",),
        of_java=False,
    ),
    text(
        "sasl.oauthbearer.extensions",
        None,
        "librdkafka option: SASL extensions as name=value,name=value.",
        of_java=False,
    ),
    text(
        "https.ca.location",
        None,
        "librdkafka option: PEM file with the certificate authorities trusted for the issuer; "
        "probe: the system's authorities. Java's equivalent is ssl.truststore.location=\"...\" in "
        "sasl.jaas.config.",
        of_java=False,
    ),
    secret(
        "https.ca.pem",
        None,
        "librdkafka option: the certificate authorities trusted for the issuer as PEM text.",
        of_java=False,
    ),
    integer(
        "sasl.login.connect.timeout.ms",
        None,
        "Connection timeout for requests to the issuer; default: 10,000.",
        importance=LOW,
    ),
    integer(
        "sasl.login.read.timeout.ms",
        None,
        "Timeout for reading responses from the issuer; 10,000 if not set.",
        importance=LOW,
    ),
    long(
        "sasl.login.retry.backoff.ms",
        100,
        "Wait before the first retry of a request to the issuer; doubled after each retry.",
        importance=LOW,
    ),
    long(
        "sasl.login.retry.backoff.max.ms",
        10_000,
        "Maximum wait between two retries. As in Java, also the maximum total wait.",
        importance=LOW,
    ),
    text(
        "sasl.login.refresh.window.factor",
        "0.8",
        "Fraction of a token's lifetime, 0.5 to 1.0, after which it is refreshed.",
        importance=LOW,
    ),
    text(
        "sasl.login.refresh.window.jitter",
        "0.05",
        "Maximum random value, 0.0 to 0.25, that is added to this fraction.",
        importance=LOW,
    ),
    integer(
        "sasl.login.refresh.min.period.seconds",
        60,
        "Minimum time between two refreshes of a token.",
        high=900,
        importance=LOW,
    ),
    integer(
        "sasl.login.refresh.buffer.seconds",
        300,
        "Time before a token's expiry at which it is refreshed at the latest.",
        high=3600,
        importance=LOW,
    ),
)

_KERBEROS = (
    text(
        "sasl.kerberos.service.name",
        None,
        "Service name: first part of the brokers' Kerberos principals, usually kafka. Can also "
        "be set as serviceName in sasl.jaas.config.",
    ),
    text(
        "sasl.kerberos.principal",
        None,
        "librdkafka option: Kerberos principal of the client.",
        of_java=False,
    ),
    text(
        "sasl.kerberos.keytab",
        None,
        "librdkafka option: path of the client's keytab.",
        of_java=False,
    ),
)

SECURITY_OPTIONS: tuple[Option, ...] = (*_PROTOCOL, *_TLS, *_SASL, *_TOKENS, *_KERBEROS)
"""Options that are set as `kafka.<name>`."""
