"""The times in a token, and invalid tokens."""

import contextlib
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.kafka.security.tokens.token import MAX_TOKEN_BYTES, Token, token_of
from tests.unit.kafka.security.tokens.logins import jwt


def jwt_of(payload: bytes) -> str:
    return "a." + urlsafe_b64encode(payload).decode().rstrip("=") + ".c"


def test_times_of_a_jwt_have_priority() -> None:
    text = jwt(sub="alice", iat=1_000, exp=2_000.5)
    assert token_of(text, "here", 7) == Token(text, 2_000_500, 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "opaque",
        "a.b.c",
        "a.b",
        "a.YWJj.c",
        "a..c",
        jwt(exp="soon"),
        jwt(exp=-5),
        jwt(exp=True),
        jwt(exp=float("inf")),
        jwt(exp=10**400),
        jwt_of(b"[" * 60_000),
        jwt_of(b'{"exp":' + b"9" * 5_000 + b"}"),
    ],
)
def test_opaque_token_is_accepted(text: str) -> None:
    assert token_of(text, "here", 7) == Token(text, 7, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty"),
        ("a b", "not a bearer token"),
        ("tokén", "not a bearer token"),
        ("token\x01auth=Bearer other", "not a bearer token"),
        ("=", "not a bearer token"),
        ("x" * (MAX_TOKEN_BYTES + 1), "characters"),
    ],
)
def test_invalid_token(text: str, expected: str) -> None:
    with pytest.raises(AuthenticationError, match=expected) as caught:
        token_of(text, "the place")
    assert "the place" in str(caught.value)
    assert "auth=Bearer" not in str(caught.value)


@settings(max_examples=300, deadline=None, database=None)
@given(st.text(max_size=60) | st.binary(max_size=60).map(jwt_of))
def test_garbage_is_accepted_or_rejected(text: str) -> None:
    with contextlib.suppress(AuthenticationError):
        assert token_of(text, "here").value == text


def test_repr_contains_no_token() -> None:
    assert "opaque" not in repr(token_of("opaque", "here"))
