"""OAUTHBEARER tokens and messages."""

import time
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from spark_kafka_sink.broker.security.oauthbearer import (
    JwksValidator,
    OAuthBearerSaslServer,
    unsecured_token,
    validate_unsecured,
)
from spark_kafka_sink.broker.security.sasl_server import SaslAuthenticationError, SaslServerError
from spark_kafka_sink.common.errors import AuthenticationError

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
        "claims",
        [
            {"iss": "https://other"},
            {"aud": "web"},
            {"sub": None},
            {"exp": 1},
            {"exp": float("nan")},
            {"exp": float("inf")},
            {"exp": 10**30},
            {"exp": "9"},
            {"exp": []},
        ],
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

    @pytest.mark.parametrize("keys", [{}, {"keys": []}, {"keys": [{}]}, {"keys": [{"kty": "EC"}]}])
    def test_issuer_without_usable_keys(self, key: Any, keys: dict[str, Any]) -> None:
        with pytest.raises(AuthenticationError):
            JwksValidator(keys=keys)(signed(key))

    def test_token_without_subject(self, validator: JwksValidator) -> None:
        with pytest.raises(AuthenticationError):
            validator(unsecured_token("alice"))
