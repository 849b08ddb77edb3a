"""The table of the security options, which are set as `kafka.<name>`.

Names and defaults are taken from Kafka 4.3's SecurityConfig, SslConfigs and SaslConfigs. Options
that Java does not have come from librdkafka's CONFIGURATION.md. Options that are lists in Java are
strings in this table; `tls` parses them.
"""

from __future__ import annotations

from functools import partial

from spark_kafka_sink.config.option_definition import (
    boolean_option,
    double_option,
    int_option,
    long_option,
    options_of,
    secret_option,
    text_option,
)
from spark_kafka_sink.config.security.security_config import Mechanism, SecurityProtocol, StoreType

_store_option = partial(
    text_option,
    java_default=StoreType.JKS.value,
    choices=tuple(store_type.value for store_type in StoreType),
    ignores_case=True,
)


class SecurityOptions:
    """Options that are set as `kafka.<name>`."""

    security_protocol = text_option(
        "security.protocol",
        "PLAINTEXT",
        choices=tuple(security_protocol.value for security_protocol in SecurityProtocol),
        ignores_case=True,
    )
    """Security protocol: PLAINTEXT, TLS (SSL), login (SASL_PLAINTEXT), or both (SASL_SSL)."""

    # TLS
    ssl_truststore_location = text_option("ssl.truststore.location", None)
    """File with the trusted certificate authorities; default: the system's authorities."""
    ssl_truststore_password = secret_option("ssl.truststore.password", None)
    """Password of the truststore; not for PEM."""
    ssl_truststore_type = _store_option("ssl.truststore.type")
    """Format of the truststore."""
    ssl_truststore_certificates = secret_option("ssl.truststore.certificates", None)
    """Trusted certificates as PEM text, instead of a file."""
    ssl_ca_location = text_option("ssl.ca.location", None, is_java_option=False)
    """librdkafka option: PEM file with the trusted certificate authorities; probe: the system's
    authorities.
    """
    ssl_keystore_location = text_option("ssl.keystore.location", None)
    """File with the client's certificate and key, for mutual TLS."""
    ssl_keystore_password = secret_option("ssl.keystore.password", None)
    """Password of the keystore; not for PEM."""
    ssl_keystore_type = _store_option("ssl.keystore.type")
    """Format of the keystore."""
    ssl_keystore_certificate_chain = secret_option("ssl.keystore.certificate.chain", None)
    """The client's certificate chain as PEM text, instead of a file."""
    ssl_keystore_key = secret_option("ssl.keystore.key", None)
    """The client's private key as PEM text (PKCS#8)."""
    ssl_key_password = secret_option("ssl.key.password", None)
    """Password of the private key; for JKS and PKCS12 only if it differs from the file's password.
    """
    ssl_certificate_location = text_option("ssl.certificate.location", None, is_java_option=False)
    """librdkafka option: PEM file with the client's certificate chain."""
    ssl_key_location = text_option("ssl.key.location", None, is_java_option=False)
    """librdkafka option: PEM file with the client's private key."""
    ssl_endpoint_identification_algorithm = text_option(
        "ssl.endpoint.identification.algorithm",
        "https",
        choices=("https", "none", ""),
        ignores_case=True,
    )
    """Verify that the broker's certificate matches the host name (https), or not (empty or none).
    """
    ssl_enabled_protocols = text_option("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    """TLS versions to offer, separated by commas; versions before TLSv1.2 are ignored."""
    ssl_protocol = text_option("ssl.protocol", "TLSv1.3")
    """Accepted for compatibility with Java, but has no effect: use ssl.enabled.protocols."""
    ssl_cipher_suites = text_option("ssl.cipher.suites", "")
    """Cipher suites to offer, with IANA or OpenSSL names; empty: OpenSSL's default."""
    enable_ssl_certificate_verification = boolean_option(
        "enable.ssl.certificate.verification", True, is_java_option=False
    )
    """librdkafka option; false is rejected because any server could then impersonate the broker."""

    # SASL
    sasl_mechanism = text_option(
        "sasl.mechanism",
        "GSSAPI",
        choices=tuple(mechanism.value for mechanism in Mechanism),
        hints={"OCI-RSA-SHA256": "OCI Streaming also has PLAIN, with an auth token as password."},
    )
    """SASL mechanism."""
    sasl_jaas_config = secret_option("sasl.jaas.config", None)
    """JAAS login as in Java: `LoginModule required name="value" ...;`. The whole text, and each
    secret in it, may be env:NAME or file:PATH.
    """
    sasl_username = secret_option("sasl.username", None, is_java_option=False)
    """librdkafka option: user name for PLAIN and SCRAM."""
    sasl_password = secret_option("sasl.password", None, is_java_option=False)
    """librdkafka option: password of the user."""
    sasl_login_callback_handler_class = text_option("sasl.login.callback.handler.class", None)
    """Login callback handler class; Kafka's OAUTHBEARER handlers and Amazon's handler are
    supported.
    """
    sasl_client_callback_handler_class = text_option("sasl.client.callback.handler.class", None)
    """Client callback handler class; Kafka's and Amazon's classes are supported."""
    sasl_login_class = text_option("sasl.login.class", None)
    """Login class; Kafka's classes are supported."""

    # OAUTHBEARER: tokens and their issuer
    sasl_oauthbearer_token_endpoint_url = text_option("sasl.oauthbearer.token.endpoint.url", None)
    """Token endpoint URL of the OAuth issuer; file:///path reads a token from a file at each login.
    """
    sasl_oauthbearer_client_credentials_client_id = secret_option(
        "sasl.oauthbearer.client.credentials.client.id", None
    )
    """OAuth client id."""
    sasl_oauthbearer_client_credentials_client_secret = secret_option(
        "sasl.oauthbearer.client.credentials.client.secret", None
    )
    """OAuth client secret."""
    sasl_oauthbearer_scope = text_option("sasl.oauthbearer.scope", None)
    """Scope of the requested token."""
    sasl_oauthbearer_header_urlencode = boolean_option("sasl.oauthbearer.header.urlencode", False)
    """URL-encode client id and secret in the authorization header (RFC 6749)."""
    sasl_oauthbearer_jwt_retriever_class = text_option(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    )
    """Java's token retriever class; DefaultJwtRetriever, ClientCredentialsJwtRetriever and
    FileJwtRetriever are supported.
    """
    sasl_oauthbearer_method = text_option(
        "sasl.oauthbearer.method", "default", choices=("default", "oidc"), is_java_option=False
    )
    """librdkafka option; oidc: request tokens from the issuer with client id and secret."""
    sasl_oauthbearer_grant_type = text_option(
        "sasl.oauthbearer.grant.type",
        "client_credentials",
        choices=("client_credentials",),
        is_java_option=False,
    )
    """librdkafka option; only client_credentials is supported."""
    sasl_oauthbearer_extensions = text_option(
        "sasl.oauthbearer.extensions", None, is_java_option=False
    )
    """librdkafka option: SASL extensions as name=value,name=value."""
    https_ca_location = text_option("https.ca.location", None, is_java_option=False)
    """librdkafka option: PEM file with the certificate authorities trusted for the issuer; probe:
    the system's authorities. Java's equivalent is ssl.truststore.location="..." in
    sasl.jaas.config.
    """
    https_ca_pem = secret_option("https.ca.pem", None, is_java_option=False)
    """librdkafka option: the certificate authorities trusted for the issuer as PEM text."""
    sasl_login_connect_timeout_ms = int_option("sasl.login.connect.timeout.ms", None)
    """Connection timeout for requests to the issuer; default: 10,000."""
    sasl_login_read_timeout_ms = int_option("sasl.login.read.timeout.ms", None)
    """Timeout for reading responses from the issuer; default: 10,000."""
    sasl_login_retry_backoff_ms = long_option("sasl.login.retry.backoff.ms", 100)
    """Wait before the first retry of a request to the issuer; doubled after each retry."""
    sasl_login_retry_backoff_max_ms = long_option("sasl.login.retry.backoff.max.ms", 10_000)
    """Maximum wait between two retries. As in Java, also the maximum total wait."""
    sasl_login_refresh_window_factor = double_option(
        "sasl.login.refresh.window.factor", 0.8, low=0.5, high=1.0
    )
    """Fraction of a token's lifetime, 0.5 to 1.0, after which it is refreshed."""
    sasl_login_refresh_window_jitter = double_option(
        "sasl.login.refresh.window.jitter", 0.05, low=0.0, high=0.25
    )
    """Maximum random value, 0.0 to 0.25, that is added to this fraction."""
    sasl_login_refresh_min_period_seconds = int_option(
        "sasl.login.refresh.min.period.seconds", 60, high=900
    )
    """Minimum time between two refreshes of a token."""
    sasl_login_refresh_buffer_seconds = int_option(
        "sasl.login.refresh.buffer.seconds", 300, high=3600
    )
    """Time before a token's expiry at which it is refreshed at the latest."""

    # Kerberos
    sasl_kerberos_service_name = text_option("sasl.kerberos.service.name", None)
    """Service name: first part of the brokers' Kerberos principals, usually kafka. Can also be set
    as serviceName in sasl.jaas.config.
    """
    sasl_kerberos_principal = text_option("sasl.kerberos.principal", None, is_java_option=False)
    """librdkafka option: Kerberos principal of the client."""
    sasl_kerberos_keytab = text_option("sasl.kerberos.keytab", None, is_java_option=False)
    """librdkafka option: path of the client's keytab."""


SECURITY_OPTIONS = options_of(SecurityOptions)
