"""Client configurations that must fail on a secured Kafka, with the expected errors."""

from collections.abc import Mapping
from dataclasses import dataclass

from spark_kafka_sink.common.errors import (
    AuthenticationError,
    ConfigError,
    KafkaProdError,
    TlsError,
)
from tests.support.security.client_configs import (
    PEM_KEYS,
    TRUST,
    ClientConfig,
    credentials_options,
    keytab_options,
    password_options,
)
from tests.support.security.listeners import Listener
from tests.support.security.users import User

_WRONG = "not-the-password"


@dataclass(frozen=True, slots=True)
class FailureCase:
    """A client configuration that must fail.

    `protocol`: security.protocol, if it differs from the listener's. `expected`: texts that the
    error message must contain.
    """

    name: str
    listener: Listener
    options: Mapping[str, str]
    error: type[KafkaProdError]
    expected: tuple[str, ...]
    protocol: str | None = None

    @property
    def client(self) -> ClientConfig:
        """Return the client configuration, with the protocol."""
        options = dict(self.options)
        if self.protocol is not None:
            options["security.protocol"] = self.protocol
        return ClientConfig(self.name, self.listener, options)


def _tls(name: str, listener: Listener, options: Mapping[str, str], *expected: str) -> FailureCase:
    return FailureCase(name, listener, options, TlsError, expected)


CERTIFICATES = (
    _tls("expired", Listener.EXPIRED, TRUST, "expired"),
    _tls(
        "wrong host",
        Listener.WRONG_HOST,
        TRUST,
        "localhost",
        "ssl.endpoint.identification.algorithm",
    ),
    _tls("unknown authority", Listener.UNKNOWN_CA, TRUST, "ssl.truststore"),
    _tls("no trust store", Listener.SSL, {}, "ssl.truststore"),
    _tls("no client certificate", Listener.MTLS, TRUST, "ssl.keystore"),
    _tls(
        "a client certificate of an unknown authority",
        Listener.MTLS,
        {**TRUST, **PEM_KEYS, "ssl.keystore.location": "{tls}/stranger.pem"},
        "ssl.keystore",
    ),
    _tls(
        "an expired client certificate",
        Listener.MTLS,
        {**TRUST, **PEM_KEYS, "ssl.keystore.location": "{tls}/expired-client.pem"},
        "ssl.keystore",
    ),
    _tls(
        "TLS 1.3 to TLS 1.2",
        Listener.TLS12,
        {**TRUST, "ssl.enabled.protocols": "TLSv1.3"},
        "ssl.enabled.protocols",
    ),
)


def _unreadable(name: str, options: Mapping[str, str], *expected: str) -> FailureCase:
    """Return a case that fails before the client connects."""
    return FailureCase(name, Listener.MTLS, options, ConfigError, expected)


STORES = (
    _unreadable(
        "wrong key password",
        {
            **TRUST,
            **PEM_KEYS,
            "ssl.keystore.location": "{tls}/client-pbes2.pem",
            "ssl.key.password": _WRONG,
        },
        "ssl.key.password",
    ),
    _unreadable(
        "missing trust store",
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": "{tls}/nowhere.pem"},
        "ssl.truststore.location",
        "nowhere.pem",
    ),
)


def _login(
    name: str, listener: Listener, options: Mapping[str, str], *expected: str
) -> FailureCase:
    return FailureCase(name, listener, {**TRUST, **options}, AuthenticationError, expected)


LOGINS = (
    *(
        _login(
            f"{mechanism}, wrong password",
            Listener.SASL_SSL,
            password_options(mechanism, User.ALICE, _WRONG),
            mechanism,
            "Authentication failed",
        )
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    ),
    _login(
        "unknown user",
        Listener.SASL_PLAINTEXT,
        password_options("SCRAM-SHA-512", "nobody"),
        "SCRAM-SHA-512",
        "Authentication failed",
    ),
    _login(
        "wrong mechanism",
        Listener.SCRAM_ONLY,
        password_options("PLAIN", User.ALICE),
        "PLAIN",
        "SCRAM-SHA-512",
        "sasl.mechanism",
    ),
    _login(
        "OAUTHBEARER, wrong client secret",
        Listener.SASL_SSL,
        {
            **credentials_options(User.ALICE),
            "sasl.jaas.config": credentials_options(User.ALICE)["sasl.jaas.config"].replace(
                "alice-secret", _WRONG
            ),
        },
        "SASL mechanism OAUTHBEARER: the token endpoint",
        "401",
    ),
    _login(
        "GSSAPI, no key for the principal",
        Listener.SASL_SSL,
        keytab_options("nobody"),
        "SASL mechanism GSSAPI: no Kerberos ticket",
        "nobody",
    ),
)


def _mismatch(protocol: str, listener: Listener, suggested: str = "") -> FailureCase:
    """Return a case in which the error suggests a protocol, by default the listener's."""
    options = TRUST if protocol.endswith("SSL") else {}
    if protocol.startswith("SASL"):
        options = {**options, **password_options("PLAIN", User.ALICE)}
    return FailureCase(
        f"{protocol} to {listener.name}",
        listener,
        options,
        KafkaProdError,
        ("security.protocol", suggested or listener.protocol),
        protocol=protocol,
    )


MISMATCHES = (
    _mismatch("PLAINTEXT", Listener.SSL),
    _mismatch("PLAINTEXT", Listener.SASL_PLAINTEXT),
    _mismatch("PLAINTEXT", Listener.SASL_SSL),
    _mismatch("SSL", Listener.PLAINTEXT),
    # Without TLS, the client does not learn that the listener has SASL.
    _mismatch("SSL", Listener.SASL_PLAINTEXT, "PLAINTEXT"),
    _mismatch("SSL", Listener.SASL_SSL),
    _mismatch("SASL_PLAINTEXT", Listener.PLAINTEXT),
    _mismatch("SASL_PLAINTEXT", Listener.SASL_SSL),
    _mismatch("SASL_SSL", Listener.PLAINTEXT),
    _mismatch("SASL_SSL", Listener.SSL),
    _mismatch("SASL_SSL", Listener.SASL_PLAINTEXT),
)
FAILURE_CASES = (*CERTIFICATES, *STORES, *LOGINS, *MISMATCHES)
