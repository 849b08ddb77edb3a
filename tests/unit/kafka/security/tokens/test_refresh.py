"""Refresh times of tokens, with the values of Java's ExpiringCredentialRefreshingLogin."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.config.security.security_config import RefreshPolicy
from spark_kafka_sink.kafka.security.tokens.token import Token, refresh_at_ms

NOW = 1_700_000_000_000
MINUTE = 60_000
POLICY = RefreshPolicy()


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
def test_values_of_java(minutes: int, settings: dict[str, Any], at: int) -> None:
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
