"""The times in a token, static and invalid tokens, and refresh times of Java."""

import contextlib
import socket
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import RefreshPolicy, TokenLogin
from spark_kafka_sink.kafka.security.tokens.token import (
    MAX_TOKEN_CHARS,
    Token,
    TokenSource,
    parse_token,
)
from spark_kafka_sink.kafka.security.tokens.token_cache import refresh_at_ms
from spark_kafka_sink.kafka.security.tokens.token_sources import StaticTokenSource
from tests.support.clock import ManualClock
from tests.unit.kafka.security.tokens.logins import jwt

OPTION = "kafka.sasl.oauthbearer.token"
NOW = 1_700_000_000_000
MINUTE = 60_000
POLICY = RefreshPolicy()


def jwt_of(payload: bytes) -> str:
    return "a." + urlsafe_b64encode(payload).decode().rstrip("=") + ".c"


def test_times_of_a_jwt_have_priority() -> None:
    text = jwt(sub="alice", iat=1_000, exp=2_000.5)
    assert parse_token(text, "here", 7) == Token(text, 2_000_500, 1_000_000)


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
    assert parse_token(text, "here", 7) == Token(text, 7, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty"),
        ("a b", "not a bearer token"),
        ("tokén", "not a bearer token"),
        ("token\x01auth=Bearer other", "not a bearer token"),
        ("=", "not a bearer token"),
        ("x" * (MAX_TOKEN_CHARS + 1), "characters"),
    ],
)
def test_invalid_token_is_rejected(text: str, expected: str) -> None:
    with pytest.raises(AuthenticationError, match=expected) as caught:
        parse_token(text, "the place")
    assert "the place" in str(caught.value)
    assert "auth=Bearer" not in str(caught.value)


@settings(max_examples=300, deadline=None, database=None)
@given(st.text(max_size=60) | st.binary(max_size=60).map(jwt_of))
def test_garbage_is_accepted_or_rejected(text: str) -> None:
    with contextlib.suppress(AuthenticationError):
        assert parse_token(text, "here").value == text


def test_repr_contains_no_token() -> None:
    assert "opaque" not in repr(parse_token("opaque", "here"))


def source(text: str, seconds: float = 0.0) -> StaticTokenSource:
    return StaticTokenSource(TokenLogin(token=Secret(text, OPTION)), ManualClock(seconds))


def test_token_in_the_option() -> None:
    assert source("opaque").fetch().value == "opaque"


def test_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n\n")
    tokens = source(f"file:{path}")
    assert tokens.cache_key is None
    assert tokens.fetch().value == "first"
    path.write_text("second")
    assert tokens.fetch().value == "second"


def test_expired_token_is_reported_before_connecting() -> None:
    text = jwt(exp=1_000)
    assert source(text, seconds=1_059).fetch().value == text
    with pytest.raises(AuthenticationError, match="1970-01-01 00:16:40 UTC") as caught:
        source(text, seconds=1_061).fetch()
    assert OPTION in str(caught.value)
    assert text not in str(caught.value)


@pytest.mark.parametrize("text", ["not a token", "é"])
def test_invalid_token_is_reported_by_its_option_only(text: str) -> None:
    with pytest.raises(AuthenticationError, match=OPTION) as caught:
        source(text).fetch()
    assert text not in str(caught.value)


def test_missing_file_names_the_host(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=socket.gethostname()):
        source(f"file:{tmp_path}/none").fetch()


def planned(
    minutes: float,
    *,
    policy: RefreshPolicy = POLICY,
    jitter: float = 0.0,
    starts_ms: int | None = NOW,
    now: int = NOW,
) -> float:
    token = Token("t", NOW + int(minutes * MINUTE), starts_ms)
    return (refresh_at_ms(token, policy, now, jitter) - NOW) / MINUTE


@pytest.mark.parametrize(
    ("minutes", "settings", "at"),
    [
        (100, {}, 80),
        (100, {"jitter": 1.0}, 85),
        (100, {"starts_ms": None}, 80),
        (100, {"policy": RefreshPolicy(window_factor=0.5, window_jitter=0.0)}, 50),
        # within five minutes of expiry: at its start
        (10, {}, 5),
        (20, {"jitter": 1.0}, 15),
        # less than a minute from now: after a minute
        (100, {"now": NOW + 90 * MINUTE}, 91),
        # too short for both: the factor of the remaining time
        (5, {}, 4),
        (6, {}, 5 - 4),
        (100, {"now": NOW + 95 * MINUTE}, 99),
        (10, {"policy": RefreshPolicy(min_period_seconds=0, buffer_seconds=0)}, 8),
    ],
)
def test_refresh_is_planned_as_in_java(minutes: int, settings: dict[str, Any], at: int) -> None:
    assert planned(minutes, **settings) == pytest.approx(at)


def test_expired_token_is_refreshed_immediately() -> None:
    assert planned(1, now=NOW + MINUTE) == 1


def test_token_without_expiry_is_kept_for_the_minimum_period() -> None:
    assert refresh_at_ms(Token("t"), POLICY, NOW, 0.5) == NOW + MINUTE


@given(
    life=st.integers(1, 10**9),
    age=st.integers(0, 10**9),
    jitter=st.floats(0, 1),
    factor=st.floats(0.5, 1.0),
    width=st.floats(0.0, 0.25),
    period=st.integers(0, 900),
    buffer=st.integers(0, 3_600),
)
def test_refresh_is_never_in_the_past_or_after_expiry(
    life: int, age: int, jitter: float, factor: float, width: float, period: int, buffer: int
) -> None:
    policy = RefreshPolicy(
        window_factor=factor,
        window_jitter=min(width, 1.0 - factor),
        min_period_seconds=period,
        buffer_seconds=buffer,
    )
    token = Token("t", NOW + life, NOW - age)
    assert NOW <= refresh_at_ms(token, policy, NOW, jitter) <= NOW + life


def test_source_without_fetch_cannot_be_created() -> None:
    with pytest.raises(TypeError, match="fetch"):
        type("Incomplete", (TokenSource,), {})()
