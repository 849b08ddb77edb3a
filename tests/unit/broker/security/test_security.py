"""The broker's security without a socket: SASL servers, sessions, denials and settings."""

import time
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from spark_kafka_sink.broker.broker_config import BrokerConfig
from spark_kafka_sink.broker.security.denials import Denials, denial_of, parse_denial
from spark_kafka_sink.broker.security.oauthbearer import (
    JwksValidator,
    OAuthBearerSaslServer,
    unsecured_token,
    validate_unsecured,
)
from spark_kafka_sink.broker.security.plain_and_scram import Credentials, ScramSaslServer
from spark_kafka_sink.broker.security.sasl_server import (
    SaslAuthenticationError,
    SaslServer,
    SaslServerAuthenticator,
    SaslServerError,
)
from spark_kafka_sink.common.errors import AuthenticationError, ConfigError, ProtocolError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import Mechanism, PasswordLogin
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from spark_kafka_sink.kafka.security.sasl.scram import scram_exchange
from tests.support.clock import ManualClock

MECHANISMS = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)

WRITE, READ, TOPIC = AclOperation.WRITE, AclOperation.READ, ResourceType.TOPIC
NOBODY = '{"alg":"none"}'
DEEP = "[" * 100_000 + "]" * 100_000


def message(token: str, authorization_id: str = "") -> bytes:
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01logicalCluster=lkc-1\x01\x01".encode()


def test_unsecured_token_has_a_user_and_an_expiry() -> None:
    server = OAuthBearerSaslServer(validate_unsecured)
    assert server.evaluate(message(unsecured_token("alice", 60))) == b""
    assert (server.is_complete, server.user) == (True, "alice")
    assert server.expires_at_ms is not None
    assert abs(server.expires_at_ms - (time.time() + 60) * 1000) < 5000


@pytest.mark.parametrize(
    "token", [unsecured_token("alice", -1), unsecured_token(""), "a.b.c", "a", "e30.e30."]
)
def test_rejection_is_acknowledged(token: str) -> None:
    server = OAuthBearerSaslServer(validate_unsecured)
    status = server.evaluate(message(token))
    assert status == b'{"status":"invalid_token"}'
    assert not server.is_complete
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        server.evaluate(b"\x01")


def token_of(header: str, claims: str, signature: str = "") -> str:
    """Create a token with any JSON, including JSON that no library writes."""
    parts = (urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (header, claims))
    return ".".join((*parts, signature))


@pytest.mark.parametrize(
    "claims",
    [
        *(
            f'{{"sub":"a","exp":{ends}}}'
            for ends in ("NaN", "Infinity", "-Infinity", "1e308", "1e400", "1e18", "9" * 400)
        ),
        *(f'{{"sub":"a","exp":{ends}}}' for ends in ("9" * 5000, "true", '"1"', "null", "[]")),
        *(
            f'{{"sub":{name},"exp":9999999999}}'
            for name in ("1", "null", "[]", "{}", "true", r'"\ud800"')
        ),
        DEEP,
        f'{{"sub":"a","exp":9999999999,"more":{DEEP}}}',
    ],
    ids=lambda claims: str(claims)[:40],
)
def test_claims_of_unexpected_types(claims: str) -> None:
    server = OAuthBearerSaslServer(validate_unsecured)
    assert server.evaluate(message(token_of(NOBODY, claims))) == b'{"status":"invalid_token"}'


@pytest.mark.parametrize("header", [DEEP, "[]", '{"alg":[]}', '{"alg":{}}', "NaN"])
def test_headers_of_unexpected_types(header: str) -> None:
    server = OAuthBearerSaslServer(validate_unsecured)
    token = token_of(header, '{"sub":"a","exp":9999999999}')
    assert server.evaluate(message(token)) == b'{"status":"invalid_token"}'


def test_expiry_in_milliseconds_is_far_in_the_future() -> None:
    """Like Kafka, which accepts this common and harmless mistake."""
    token = validate_unsecured(token_of(NOBODY, '{"sub":"a","exp":1999999999999}'))
    assert token.expires_at_ms == 1_999_999_999_999_000


def test_authorization_id_of_another_user() -> None:
    server = OAuthBearerSaslServer(validate_unsecured)
    with pytest.raises(SaslAuthenticationError, match=r"\(bob\).* \(alice\)"):
        server.evaluate(message(unsecured_token("alice"), "bob"))


@pytest.mark.parametrize(
    "text", [b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Basic YQ\x01\x01", b"\xff" * 99]
)
def test_invalid_messages_are_rejected(text: bytes) -> None:
    with pytest.raises(SaslServerError):
        OAuthBearerSaslServer(validate_unsecured).evaluate(text)


@pytest.fixture(scope="module")
def key() -> Any:
    return ECKey.generate_key("P-256", {"kid": "1"})


@pytest.fixture(scope="module")
def validator(key: Any) -> JwksValidator:
    keys = {"keys": [key.as_dict(private=False)]}
    return JwksValidator(keys=lambda: keys, issuer="https://issuer", audience="kafka")


def signed(key: Any, **claims: Any) -> str:
    ends = time.time() + 60
    known = {"sub": "alice", "iss": "https://issuer", "aud": "kafka", "exp": ends} | claims
    return jwt.encode({"alg": "ES256", "kid": "1"}, known, key)


class TestIssuers:
    def test_token_of_the_issuer_is_accepted(self, key: Any, validator: JwksValidator) -> None:
        assert validator(signed(key)).principal == "alice"

    @pytest.mark.parametrize(
        "claims", [{"iss": "https://other"}, {"aud": "web"}, {"exp": 1}, {"sub": None}]
    )
    def test_invalid_tokens_are_rejected(
        self, key: Any, validator: JwksValidator, claims: dict[str, Any]
    ) -> None:
        with pytest.raises(AuthenticationError):
            validator(signed(key, **claims))

    def test_token_signed_with_another_key(self, validator: JwksValidator) -> None:
        other = ECKey.generate_key("P-256", {"kid": "1"})
        with pytest.raises(AuthenticationError):
            validator(signed(other))

    @pytest.mark.parametrize(
        "header",
        [DEEP, '{"alg":"ES256","crit":1}', '{"alg":[]}', '{"alg":"ES256","kid":[]}'],
        ids=lambda header: str(header)[:30],
    )
    def test_headers_of_unexpected_types(self, validator: JwksValidator, header: str) -> None:
        with pytest.raises(AuthenticationError):
            validator(token_of(header, "{}", "AAAA"))

    @pytest.mark.parametrize("ends", [float("nan"), float("inf"), 10**30, "9", []])
    def test_expiry_of_unexpected_types(
        self, key: Any, validator: JwksValidator, ends: object
    ) -> None:
        with pytest.raises(AuthenticationError):
            validator(signed(key, exp=ends))

    def test_token_without_subject(self, validator: JwksValidator) -> None:
        with pytest.raises(AuthenticationError):
            validator(unsecured_token("alice"))


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    users = Credentials()
    users.set_password("al=ice,", "pässword")
    return users


def client(mechanism: Mechanism, password: str = "pässword") -> SaslExchange:
    login = PasswordLogin(
        username=Secret("al=ice,", "sasl.username"), password=Secret(password, "sasl.password")
    )
    return scram_exchange(mechanism, login)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_sides_prove_their_identity(credentials: Credentials, mechanism: Mechanism) -> None:
    exchange, server = client(mechanism), ScramSaslServer(credentials, mechanism.value)
    final = exchange.next_response(server.evaluate(exchange.initial_response()))
    assert final is not None
    assert not server.is_complete
    assert exchange.next_response(server.evaluate(final)) is None
    assert (server.is_complete, server.user) == (True, "al=ice,")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_is_rejected(credentials: Credentials, mechanism: Mechanism) -> None:
    exchange = client(mechanism, "guessed")
    server = ScramSaslServer(credentials, mechanism.value)
    final = exchange.next_response(server.evaluate(exchange.initial_response()))
    assert final is not None
    with pytest.raises(SaslServerError):
        server.evaluate(final)
    assert not server.is_complete


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=nobody,r=abc",
        b"p=tls-unique,,n=al=3Dice=2C,r=abc",
        b"y,,n=al=3Dice=2C,r=abc",
        b"n,,n=al=3Dice=2C",
        b"n,,n=al=3Dice=2C,r=",
        b"n,a=bob,n=al=3Dice=2C,r=abc",
        b"n,,n=al=ice,r=abc",
        b"\xff\xfe",
        bytes(1000),
    ],
)
def test_rejected_first_messages(credentials: Credentials, message: bytes) -> None:
    with pytest.raises(SaslServerError):
        ScramSaslServer(credentials, "SCRAM-SHA-256").evaluate(message)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("c=biws", "c=eSws"),
        lambda text: text.replace("r=", "r=x"),
        lambda text: text.rpartition(",p=")[0],
        lambda text: text.rpartition(",p=")[0] + ",p=" + b64encode(bytes(32)).decode(),
        lambda text: text.rpartition(",p=")[0] + ",p=" + b64encode(bytes(1)).decode(),
        lambda text: text.rpartition(",p=")[0] + ",p=====",
        lambda text: text[:0],
    ],
)
def test_rejected_final_messages(credentials: Credentials, change: object) -> None:
    exchange = client(Mechanism.SCRAM_SHA_256)
    server = ScramSaslServer(credentials, "SCRAM-SHA-256")
    final = exchange.next_response(server.evaluate(exchange.initial_response()))
    assert final is not None
    assert callable(change)
    with pytest.raises(SaslServerError):
        server.evaluate(change(final.decode()).encode())
    assert not server.is_complete


def test_example_of_rfc_7677(credentials: Credentials) -> None:
    server = ScramSaslServer(credentials, "SCRAM-SHA-256", nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    answer = server.evaluate(b"n,,n=al=3Dice=2C,r=rOprNGfwEbeRWgbNEkqO").decode()
    nonce, salt, iterations = answer.split(",")
    assert nonce == "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert len(b64decode(salt.removeprefix("s="))) == 32
    assert iterations == "i=4096"


def test_repr_contains_no_stored_keys(credentials: Credentials) -> None:
    credential = credentials.scram("al=ice,", "SCRAM-SHA-256")
    assert repr(credential) == "ScramCredential(iterations=4096)"


class AnyToken(SaslServer):
    """A mechanism that accepts any token."""

    user = "alice"

    def __init__(self, expires_at_ms: int | None) -> None:
        self.expires_at_ms = expires_at_ms

    def evaluate(self, response: bytes) -> bytes:
        self.is_complete = True
        return response


def authenticated(
    max_reauth_ms: int, expires_at_ms: int | None
) -> tuple[SaslServerAuthenticator, object]:
    makers: dict[str, Callable[[], SaslServer]] = {"ANY": lambda: AnyToken(expires_at_ms)}
    authenticator = SaslServerAuthenticator(makers, max_reauth_ms)
    authenticator.handshake("ANY", 1)
    answer = authenticator.authenticate(b"", ManualClock(100.0, 900_000))
    return authenticator, answer["session_lifetime"]


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_at_ms", "lifetime_ms"),
    [
        (0, None, 0),
        (5_000, None, 5_000),
        (0, 1_003_000, 3_000),
        (5_000, 1_003_000, 3_000),
        (5_000, 1_009_000, 5_000),
        (0, 900_000, 0),
        (2**63 - 1, None, timedelta.max // timedelta(milliseconds=1)),
    ],
)
def test_shorter_lifetime_counts(
    max_reauth_ms: int, expires_at_ms: int | None, lifetime_ms: int
) -> None:
    _, lifetime = authenticated(max_reauth_ms, expires_at_ms)
    assert lifetime == timedelta(milliseconds=lifetime_ms)


def test_session_without_expiry_is_always_valid() -> None:
    authenticator, _ = authenticated(0, None)
    assert authenticator.admits(ApiKey.PRODUCE, 1e9)
    assert authenticator.admits(ApiKey.SASL_HANDSHAKE, 1e9)


def test_session_expires_to_the_millisecond() -> None:
    authenticator, _ = authenticated(5_000, None)
    assert authenticator.admits(ApiKey.PRODUCE, 105.0)
    with pytest.raises(ProtocolError, match="expired"):
        authenticator.admits(ApiKey.PRODUCE, 105.001)
    assert not authenticator.admits(ApiKey.SASL_HANDSHAKE, 106.0)
    with pytest.raises(ProtocolError, match="PRODUCE"):
        authenticator.check(ApiKey.PRODUCE)


@pytest.mark.parametrize(
    ("text", "user", "operation", "name", "allowed"),
    [
        ("alice:Write:topic=x", "alice", WRITE, "x", False),
        ("alice:write:topic=x", "alice", WRITE, "x", False),
        ("alice:Write:topic=x", "bob", WRITE, "x", True),
        ("alice:Write:topic=x", "alice", READ, "x", True),
        ("alice:Write:topic=x", "alice", WRITE, "xy", True),
        ("alice:Write:topic=x*", "alice", WRITE, "xy", False),
        ("alice:All:topic=x", "alice", READ, "x", False),
        ("*:All:topic=*", "bob", READ, "anything", False),
        ("alice:Write:group=x", "alice", WRITE, "x", True),
        ("alice:Write", "alice", WRITE, "x", True),
    ],
)
def test_scope_of_a_denial(
    text: str, user: str, operation: AclOperation, name: str, *, allowed: bool
) -> None:
    denials = Denials()
    denials.add(parse_denial(text))
    assert denials.is_active
    assert denials.allows(user, operation, TOPIC, name) is allowed


def test_denials_can_be_added_and_removed() -> None:
    denials = Denials()
    first, second = parse_denial("a:Write:topic=x"), parse_denial("a:Read:topic=x")
    denials.add(first)
    denials.add(second)
    denials.remove(first)
    denials.remove(first)
    assert denials.allows("a", WRITE, TOPIC, "x")
    assert not denials.allows("a", READ, TOPIC, "x")
    denials.remove(second)
    assert not denials.is_active


def test_bit_fields_lack_denied_operations() -> None:
    denials = Denials()
    denials.add(parse_denial("a:Write:topic=x"))
    assert denials.without_denied(0b11000, "a", TOPIC, "x") == 0b01000
    assert denials.without_denied(0b11000, "b", TOPIC, "x") == 0b11000


def test_denial_is_described_in_kafkas_words() -> None:
    denial = denial_of("User:alice", "IDEMPOTENT_WRITE")
    assert str(denial) == "User:alice is denied IdempotentWrite on Cluster kafka-cluster"


@pytest.mark.parametrize(
    "text", ["", "alice", "alice:", ":Write:topic=x", "a:Write:topic", "a:Write:topic=", "a:No"]
)
def test_invalid_texts_of_denials_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_denial(text)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sasl": {}}, "sasl is set, but there are no users, so nobody can log in"),
        ({"sasl_mechanisms": ["PLAIN"]}, "sasl_mechanisms contains PLAIN, but there are no users"),
        (
            {"sasl": {}, "sasl_mechanisms": ["SCRAM-SHA-256"]},
            "contains SCRAM-SHA-256, but there are no",
        ),
        ({"sasl": {"a": None}}, "sasl has a user or a password that is not a string"),
        ({"sasl": {1: "b"}}, "sasl has a user or a password that is not a string"),
        ({"sasl": "alice:sentinel"}, "sasl is a str, not a dict"),
        ({"sasl": {"a": ""}}, "without a name or without a password"),
        ({"sasl": {"": "sentinel"}}, "without a name or without a password"),
        ({"tls": "yes"}, "tls is a str. Set True, False, or TlsFiles"),
    ],
)
def test_incomplete_settings_are_rejected(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(**options)
    assert says in str(caught.value)
    assert "sentinel" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"sasl": {"alice": "x"}}, "SASL_PLAINTEXT"),
        ({"sasl_mechanisms": ["OAUTHBEARER"]}, "SASL_PLAINTEXT"),
        ({"sasl": {}, "sasl_mechanisms": ["OAUTHBEARER"]}, "SASL_PLAINTEXT"),
        ({"tls": True, "sasl": {"alice": "x"}}, "SASL_SSL"),
    ],
)
def test_description_of_the_security_settings(options: dict[str, Any], protocol: str) -> None:
    assert BrokerConfig(**options).protocol == protocol
