"""OAUTHBEARER options as users set them."""

import logging
from dataclasses import replace

import pytest

from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.sasl import resolve_references
from spark_kafka_sink.config.security.security_config import (
    ClientCredentialsLogin,
    JaasLogin,
    Login,
    Mechanism,
    MskIamLogin,
    SaslConfig,
    StoreType,
    TlsConfig,
    TokenLogin,
    TrustStore,
    UnsecuredTokenLogin,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from tests.unit.config.parsing import config_error

COMMON = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{COMMON}.OAuthBearerLoginModule required"
JAAS = "kafka.sasl.jaas.config"
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = {
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "sentinel",
}
ISSUER = {URL: "https://issuer/token"}
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
HANDLER = "sasl.login.callback.handler.class"
MINIMAL = {
    "kafka.bootstrap.servers": "broker:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
}


def parse(options: dict[str, str], jaas: str | None = None) -> SaslConfig:
    settings = options | ({} if jaas is None else {"sasl.jaas.config": f"{MODULE} {jaas};"})
    sasl = ProducerConfig.parse(
        MINIMAL | {f"kafka.{name}": value for name, value in settings.items()}
    ).security.sasl
    assert sasl is not None
    return sasl


def login(options: dict[str, str], jaas: str | None = None) -> Login:
    parsed = parse(options, jaas).login
    assert not isinstance(parsed, JaasLogin)
    return parsed


def failure(options: dict[str, str], jaas: str | None = None) -> str:
    return config_error(parse, options, jaas)


def credentials(client: str, secret: str) -> ClientCredentialsLogin:
    return ClientCredentialsLogin(
        token_endpoint_url="https://issuer/token",
        client_id=Secret("me", client),
        client_secret=Secret("sentinel", secret),
    )


def test_issuer_by_java_options() -> None:
    names = [f"kafka.{name}" for name in CLIENT]
    assert login(ISSUER | CLIENT) == credentials(*names)
    assert login(ISSUER | CLIENT, "") == credentials(*names)
    java = {HANDLER: f"{COMMON}.OAuthBearerLoginCallbackHandler"}
    assert login(ISSUER | CLIENT | java) == credentials(*names)
    older = {HANDLER: f"kafkashaded.{COMMON}.secured.OAuthBearerLoginCallbackHandler"}
    assert login(ISSUER | CLIENT | older) == credentials(*names)


def test_issuer_by_login_module_options() -> None:
    expected = credentials(f"clientId in {JAAS}", f"clientSecret in {JAAS}")
    assert login(ISSUER, 'clientId="me" clientSecret="sentinel"') == expected
    parsed = login(ISSUER | CLIENT, 'clientId="other" clientSecret="other"')
    assert parsed == credentials(*(f"kafka.{name}" for name in CLIENT))


def test_issuer_by_librdkafka_options() -> None:
    parsed = login(
        ISSUER
        | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "sentinel",
            "sasl.oauthbearer.scope": "s",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
            "https.ca.location": "/ca.pem",
        }
    )
    assert isinstance(parsed, ClientCredentialsLogin)
    assert parsed.client_id.option == "kafka.sasl.oauthbearer.client.id"
    assert parsed.scope == "s"
    assert parsed.extensions == (("identityPoolId", "pool-1"), ("logicalCluster", "lkc-1"))
    certificates = Secret("file:/ca.pem", "kafka.https.ca.location")
    assert parsed.tls == TlsConfig(
        truststore=TrustStore(type=StoreType.PEM, certificates=certificates)
    )


@pytest.mark.parametrize("verification", ["1", "t", "TRUE"])
def test_librdkafkas_spellings_of_values(verification: str) -> None:
    options = {
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.grant.type": "CLIENT_CREDENTIALS",
        "enable.ssl.certificate.verification": verification,
    }
    assert login(ISSUER | CLIENT | options) == login(ISSUER | CLIENT)


@pytest.mark.parametrize("verification", ["0", "f"])
def test_librdkafkas_spellings_of_false(verification: str) -> None:
    options = {"enable.ssl.certificate.verification": verification}
    assert "would let any server impersonate the broker" in failure(ISSUER | CLIENT | options)


def test_issuer_by_strimzi_options(caplog: pytest.LogCaptureFixture) -> None:
    parsed = login(
        {HANDLER: "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"},
        'oauth.client.id="me" oauth.client.secret="sentinel" oauth.scope="s" '
        'oauth.audience="kafka" oauth.sasl.extension.key="v" oauth.http.retries="3" '
        'oauth.connect.timeout.seconds="5" oauth.read.timeout.seconds="1.5" '
        'oauth.token.endpoint.uri="https://issuer/token" '
        'oauth.ssl.truststore.location="/ca.p12" oauth.ssl.truststore.type="PKCS12" '
        'oauth.ssl.truststore.password="sentinel"',
    )
    assert parsed == ClientCredentialsLogin(
        token_endpoint_url="https://issuer/token",
        client_id=Secret("me", f"oauth.client.id in {JAAS}"),
        client_secret=Secret("sentinel", f"oauth.client.secret in {JAAS}"),
        scope="s",
        audience="kafka",
        extensions=(("key", "v"),),
        connect_timeout_ms=5000,
        read_timeout_ms=1500,
        tls=TlsConfig(
            truststore=TrustStore(
                type=StoreType.PKCS12,
                location="/ca.p12",
                password=Secret("sentinel", f"oauth.ssl.truststore.password in {JAAS}"),
            )
        ),
    )
    unused = f"oauth.http.retries in {JAAS}"
    assert [record.getMessage() for record in caplog.records] == [
        f"Option {unused} is not supported and has no effect"
    ]


def test_issuer_retry_options() -> None:
    times = {
        "sasl.login.connect.timeout.ms": "1",
        "sasl.login.read.timeout.ms": "2",
        "sasl.login.retry.backoff.ms": "3",
        "sasl.login.retry.backoff.max.ms": "4",
        "sasl.oauthbearer.header.urlencode": "true",
    }
    parsed = login(ISSUER | CLIENT | times, 'scope="a b" extension_x="y"')
    assert isinstance(parsed, ClientCredentialsLogin)
    assert (parsed.connect_timeout_ms, parsed.read_timeout_ms) == (1, 2)
    assert (parsed.retry_backoff_ms, parsed.retry_backoff_max_ms) == (3, 4)
    assert parsed.header_urlencode
    assert (parsed.scope, parsed.extensions) == ("a b", (("x", "y"),))
    plain = login(ISSUER | CLIENT)
    assert isinstance(plain, ClientCredentialsLogin)
    assert (plain.connect_timeout_ms, plain.read_timeout_ms) == (10_000, 10_000)
    assert (plain.retry_backoff_ms, plain.retry_backoff_max_ms) == (100, 10_000)


@pytest.mark.parametrize(
    ("options", "jaas", "expected"),
    [
        ({}, "", None),
        ({"https.ca.location": "probe"}, "", None),
        (
            {},
            'ssl.truststore.location="/ca.pem" ssl.truststore.type=PEM',
            TlsConfig(truststore=TrustStore(type=StoreType.PEM, location="/ca.pem")),
        ),
        (
            {"https.ca.pem": "file:/ca"},
            "",
            TlsConfig(
                truststore=TrustStore(
                    type=StoreType.PEM, certificates=Secret("file:/ca", "kafka.https.ca.pem")
                )
            ),
        ),
    ],
)
def test_issuer_trust_options(
    options: dict[str, str], jaas: str, expected: TlsConfig | None
) -> None:
    parsed = login(ISSUER | CLIENT | options, jaas)
    assert isinstance(parsed, ClientCredentialsLogin)
    assert parsed.tls == expected


@pytest.mark.parametrize(
    ("options", "jaas", "expected"),
    [
        ({URL: "file:///run/token"}, None, Secret("file:/run/token", f"kafka.{URL}")),
        ({URL: "file:/run/a%20b"}, "", Secret("file:/run/a b", f"kafka.{URL}")),
        (
            {
                URL: "file:///t",
                RETRIEVER: f"{COMMON}.FileJwtRetriever",
            },
            None,
            Secret("file:/t", f"kafka.{URL}"),
        ),
        (
            {},
            'oauth.access.token="env:TOKEN"',
            Secret("env:TOKEN", f"oauth.access.token in {JAAS}"),
        ),
        (
            {},
            'oauth.access.token.location="/run/token"',
            Secret("file:/run/token", f"oauth.access.token.location in {JAAS}"),
        ),
    ],
)
def test_static_token_may_be_a_reference(
    options: dict[str, str], jaas: str | None, expected: Secret
) -> None:
    assert login(options, jaas) == TokenLogin(token=expected)


def test_unsecured_token_has_its_claims() -> None:
    parsed = login(
        {},
        'unsecuredLoginStringClaim_sub="me" unsecuredLoginNumberClaim_n="1.5" '
        'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60" '
        'unsecuredLoginExtension_x="y"',
    )
    assert parsed == UnsecuredTokenLogin(
        claims=(("n", 1.5), ("scope", ("a", "b")), ("sub", "me")),
        lifetime_seconds=60,
        extensions=(("x", "y"),),
    )


def test_amazon_login_module_under_oauthbearer() -> None:
    name = "shadedmskiam.software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    sasl = parse(
        {HANDLER: name, "sasl.client.callback.handler.class": name}, 'awsProfileName="dev"'
    )
    assert sasl == SaslConfig(mechanism=Mechanism.AWS_MSK_IAM, login=MskIamLogin(profile="dev"))


def test_unsupported_login_module(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ISSUER | {"sasl.jaas.config": "env:JAAS", "https.ca.pem": "env:CA"}
    config = parse(options)
    monkeypatch.setenv("JAAS", f'{MODULE} clientId="me" clientSecret="sentinel";')
    resolved = resolve_references(config)
    assert isinstance(resolved, ClientCredentialsLogin)
    assert resolved.client_secret.reveal() == "sentinel"
    assert resolved.tls is not None
    assert parse(options) == config


@pytest.mark.parametrize(
    ("options", "jaas", "expected"),
    [
        ({}, None, f"OAUTHBEARER, which requires a token. Set kafka.{URL}"),
        ({"sasl.oauthbearer.method": "oidc"}, None, "which requires a token"),
        ({URL: "issuer.example"}, None, f"option kafka.{URL} is not the URL of an OAuth issuer"),
        ({URL: "ftp://issuer"}, None, "is not the URL of an OAuth issuer"),
        ({URL: "https://[tenant]/"}, None, "is not the URL of an OAuth issuer"),
        ({URL: "https://a:sentinel@\u2100/"}, None, "is not the URL of an OAuth issuer"),
        ({URL: "https://me:sentinel@issuer/t"}, None, f"option kafka.{URL} contains credentials"),
        (ISSUER, None, "is set, which requires kafka.sasl.oauthbearer.client.credentials"),
        (ISSUER, 'clientId="me"', "credentials.client.secret. Set it, or clientSecret in"),
        ({}, 'unsecuredLoginListClaim_scope="|a"', f"{JAAS} lacks the claim sub"),
        (
            {HANDLER: f"{COMMON}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"},
            None,
            f"{JAAS} lacks the claim sub",
        ),
        (
            {},
            'unsecuredLoginStringClaim_sub="me" unsecuredLoginNumberClaim_n="sentinel"',
            f"unsecuredLoginNumberClaim_n in {JAAS} is not a number",
        ),
        *(
            (ISSUER | CLIENT, f"extension_{extension}", "has an invalid SASL extension")
            for extension in (
                'auth="sentinel"',
                'a1="sentinel"',
                '="sentinel"',
                'name=""',
                'name="sentinel\x01"',
                'name="sentinelé"',
            )
        ),
        (
            {},
            'unsecuredLoginStringClaim_sub="me" unsecuredLoginExtension_auth="sentinel"',
            "has an invalid SASL extension",
        ),
        ({}, 'oauth.refresh.token="sentinel"', f"oauth.refresh.token in {JAAS} is not supported"),
        (
            ISSUER | CLIENT | {"https.ca.location": "/ca"},
            'ssl.truststore.location="/ca"',
            "certificate authorities are set in two places",
        ),
        (
            ISSUER | CLIENT,
            'ssl.truststore.certificates="sentinel" ssl.truststore.type="JKS"',
            f"ssl.truststore.certificates in {JAAS} contains PEM text, but ssl.truststore.type in",
        ),
        (
            ISSUER | CLIENT | {"sasl.oauthbearer.extensions": "name=sentinel,other=x"},
            'extension_name="sentinel2"',
            f"{JAAS} or kafka.sasl.oauthbearer.extensions sets an extension to two values",
        ),
        (
            ISSUER | CLIENT | {RETRIEVER: f"{COMMON}.FileJwtRetriever"},
            None,
            f"{RETRIEVER} is FileJwtRetriever, which does not support kafka.{URL}=https://...",
        ),
        (
            {URL: "file:///t", RETRIEVER: f"{COMMON}.ClientCredentialsJwtRetriever"},
            None,
            f"ClientCredentialsJwtRetriever, which does not support kafka.{URL}=file:///path",
        ),
        (
            {HANDLER: "com.example.Mine"},
            None,
            f"kafka.{HANDLER} is 'com.example.Mine', an unsupported Java",
        ),
        ({"sasl.login.class": "com.example.Mine"}, None, "an unsupported Java class"),
        (
            {"sasl.client.callback.handler.class": "com.example.Mine"},
            None,
            "an unsupported Java class",
        ),
        (
            {RETRIEVER: "com.example.OtherJwtRetriever"},
            None,
            "an unsupported Java class",
        ),
    ],
)
def test_conflicting_or_missing_options(
    options: dict[str, str], jaas: str | None, expected: str
) -> None:
    assert expected in failure(options, jaas)


@pytest.mark.parametrize("prefix", ["", "oauth."])
@pytest.mark.parametrize(
    ("options", "named", "message"),
    [
        (
            {"truststore.password": "sentinel"},
            "truststore.location",
            "is set without {}. Set both or neither",
        ),
        ({"keystore.location": "/k"}, "keystore.password", "requires {}. If it"),
        ({"keystore.location": "/k"}, "keystore.type", "which needs no password, set {} to PEM"),
        (
            {"truststore.certificates": "sentinel", "truststore.type": "JKS"},
            "truststore.type",
            "Set {} to PEM",
        ),
        (
            {"keystore.location": "/k", "keystore.type": "PEM", "keystore.password": "sentinel"},
            "key.password",
            "For an encrypted key use {}.",
        ),
    ],
)
def test_error_names_the_tls_option_of_the_login(
    options: dict[str, str], named: str, message: str, prefix: str
) -> None:
    jaas = " ".join(f'{prefix}ssl.{name}="{value}"' for name, value in options.items())
    text = failure(ISSUER | CLIENT, jaas)
    assert message.format(f"{prefix}ssl.{named} in {JAAS}") in text


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    warn_once.cache_clear()
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.mark.parametrize("url", ["http://issuer/token?x=y", "HTTP://10.0.0.1:80/"])
def test_unencrypted_secret_is_warned_about_once(
    url: str, warnings: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        login({**CLIENT, URL: url})
    (record,) = warnings.records
    text = record.getMessage()
    assert f"kafka.{URL} starts with http://" in text
    assert "x=y" not in text
    assert "sentinel" not in text


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer/token",
        "http://localhost:8080/token",
        "http://a.localhost/",
        "http://127.1.2.3/",
        "http://[::1]:80/",
    ],
)
def test_loopback_traffic_is_not_warned_about(url: str, warnings: pytest.LogCaptureFixture) -> None:
    login({**CLIENT, URL: url})
    assert warnings.records == []


@pytest.mark.parametrize("value", ["SSL", "tls", "TLSv1.1", "SSLv3", "Default", "DTLS", "TLSv1.2"])
def test_any_ssl_protocol_of_java_is_accepted(
    value: str, warnings: pytest.LogCaptureFixture
) -> None:
    """Databricks' recipe for Event Hubs has it in the login module."""
    trust = {"https.ca.location": "/ca"}
    plain, trusting = login(ISSUER | CLIENT), login(ISSUER | CLIENT | trust)
    assert isinstance(plain, ClientCredentialsLogin)
    jaas = f'ssl.protocol="{value}" ssl.truststore.type="JKS"'
    assert login(ISSUER | CLIENT, jaas) == replace(plain, tls=TlsConfig())
    assert login(ISSUER | CLIENT | trust, jaas) == trusting
    assert login(ISSUER | CLIENT | {"ssl.protocol": value}) == plain
    expected = [] if value == "tls" else [f"ssl.protocol in {JAAS}", "kafka.ssl.protocol"]
    assert [record.getMessage() for record in warnings.records] == [
        f"Option {name} has no effect: ssl.enabled.protocols selects the TLS versions"
        for name in expected
    ]


def test_login_module_options_of_the_jvm_are_warned_about(
    warnings: pytest.LogCaptureFixture,
) -> None:
    login(ISSUER | CLIENT, 'ssl.provider="SunJSSE" oauth.ssl.secure.random.implementation="x"')
    assert [record.getMessage() for record in warnings.records] == [
        f"Option {name} in {JAAS} is not supported and has no effect"
        for name in ("ssl.provider", "oauth.ssl.secure.random.implementation")
    ]
    message = failure(ISSUER | CLIENT, 'ssl.engine.factory.class="a.B"')
    assert f"ssl.engine.factory.class in {JAAS} is not supported" in message


@pytest.mark.parametrize("prefix", ["", "oauth."])
def test_likely_typo_of_a_tls_option_of_the_login_is_logged(
    prefix: str, warnings: pytest.LogCaptureFixture
) -> None:
    jaas = f'{prefix}ssl.truststore.locaton="/ca" {prefix}ssl.unrelated="sentinel"'
    assert login(ISSUER | CLIENT, jaas) == login(ISSUER | CLIENT)
    (record,) = warnings.records
    start = f"{JAAS} has an unknown option, which is ignored: did you mean"
    assert record.getMessage() == f"{start} {prefix}ssl.truststore.location?"


def test_same_extension_in_two_places_is_accepted() -> None:
    parsed = login(ISSUER | CLIENT | {"sasl.oauthbearer.extensions": "a=1,b=2"}, 'extension_a="1"')
    assert isinstance(parsed, ClientCredentialsLogin)
    assert parsed.extensions == (("a", "1"), ("b", "2"))


def test_options_of_other_mechanisms_are_warned_about(warnings: pytest.LogCaptureFixture) -> None:
    unused = {"sasl.kerberos.service.name": "kafka", "sasl.oauthbearer.assertion.algorithm": "x"}
    assert login(ISSUER | CLIENT | unused) == login(ISSUER | CLIENT)
    password = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    assert login(password | {URL: "x", "https.ca.pem": "y"}) == login(password)
    assert [record.getMessage().partition(" has no effect")[0] for record in warnings.records] == [
        "Option kafka.sasl.oauthbearer.assertion.algorithm is not supported and",
        "Option kafka.sasl.kerberos.service.name",
        f"Option kafka.{URL}",
        "Option kafka.https.ca.pem",
    ]


def test_client_assertion_error_names_alternatives() -> None:
    """KIP-1139: the class of Kafka 4.1 and its options."""
    message = failure({RETRIEVER: f"{COMMON}.JwtBearerJwtRetriever", **ISSUER})
    assert "requires client assertions (jwt-bearer), which are not supported" in message
    assert "client.credentials.client.id and .secret" in message
    assert "token.endpoint.url=file:///path" in message
