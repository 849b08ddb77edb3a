"""Tokens are shared between equal settings and threads until they are due."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Never

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.config.security.security_config import RefreshPolicy
from spark_kafka_sink.kafka.security.tokens.token import Token, TokenSource
from spark_kafka_sink.kafka.security.tokens.token_cache import MAX_CACHED, TokenCache
from tests.support.clock import ManualClock

POLICY = RefreshPolicy(min_period_seconds=0, buffer_seconds=0, window_jitter=0.0)


@dataclass
class Source(TokenSource):
    """Tokens that live for 100 s; `fails` is the number of fetches that fail next."""

    clock: ManualClock
    cache_key: str | None = "the settings"
    fails: int = 0
    fetched: int = 0
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def fetch(self) -> Token:
        self.fetched += 1
        assert self.gate.wait(30)
        if self.fails:
            self.fails -= 1
            raise AuthenticationError("the issuer is down", hint="wait")
        now = self.clock.wall_ms()
        return Token(f"token-{self.fetched}", now + 100_000, now)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cache(clock: ManualClock) -> TokenCache:
    return TokenCache(clock, jitter=lambda: 0.0)


def value(cache: TokenCache, source: Source, policy: RefreshPolicy = POLICY) -> str:
    return cache.token(source, policy).value


def test_one_fetch_serves_all_until_it_is_due(cache: TokenCache, clock: ManualClock) -> None:
    source = Source(clock)
    assert [value(cache, source) for _ in range(100)] == ["token-1"] * 100
    clock.advance(79.9)
    assert value(cache, source) == "token-1"
    clock.advance(0.2)
    assert value(cache, source) == "token-2"
    assert source.fetched == 2


def test_only_equal_settings_share_a_token(cache: TokenCache, clock: ManualClock) -> None:
    first, same, other = Source(clock), Source(clock), Source(clock, cache_key="other settings")
    assert value(cache, first) == value(cache, same)
    assert same.fetched == 0
    value(cache, other)
    value(cache, other, RefreshPolicy())
    assert other.fetched == 2


def test_free_tokens_are_fetched_each_time(cache: TokenCache, clock: ManualClock) -> None:
    source = Source(clock, cache_key=None)
    assert [value(cache, source), value(cache, source)] == ["token-1", "token-2"]


def test_many_threads_wait_for_one_fetch(cache: TokenCache, clock: ManualClock) -> None:
    source = Source(clock)
    source.gate.clear()
    with ThreadPoolExecutor(20) as threads:
        futures = [threads.submit(value, cache, source) for _ in range(20)]
        source.gate.set()
        assert {future.result(30) for future in futures} == {"token-1"}
    assert source.fetched == 1


def test_thread_does_not_wait_forever_for_a_fetch(clock: ManualClock) -> None:
    cache, source = TokenCache(clock, wait_s=0.05), Source(clock)
    source.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(value, cache, source)
        while not source.fetched:
            assert not slow.done()
        with pytest.raises(TimeoutError, match="has not received a token"):
            value(cache, source)
        source.gate.set()
        assert slow.result(30) == value(cache, source) == "token-1"


def test_old_token_is_used_during_the_refresh(cache: TokenCache, clock: ManualClock) -> None:
    source = Source(clock)
    value(cache, source)
    clock.advance(90)
    source.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        renewing = threads.submit(value, cache, source)
        while source.fetched < 2:
            assert not renewing.done()
        assert value(cache, source) == "token-1"
        source.gate.set()
        assert renewing.result(30) == "token-2"
    assert value(cache, source) == "token-2"


def test_old_token_is_used_while_the_issuer_is_down(cache: TokenCache, clock: ManualClock) -> None:
    source = Source(clock)
    value(cache, source)
    clock.advance(85)
    source.fails = 1
    assert value(cache, source) == "token-1"
    clock.advance(9)
    assert value(cache, source) == "token-1"
    assert source.fetched == 2
    clock.advance(1)
    assert value(cache, source) == "token-3"


def test_expired_token_is_never_returned(cache: TokenCache, clock: ManualClock) -> None:
    source = Source(clock)
    value(cache, source)
    clock.advance(100)
    source.fails = 1
    with pytest.raises(AuthenticationError, match="the issuer is down"):
        cache.token(source, POLICY)


def test_waiting_threads_share_a_failure_for_one_second(
    cache: TokenCache, clock: ManualClock
) -> None:
    source = Source(clock, fails=1)
    source.gate.clear()
    with ThreadPoolExecutor(10) as threads:
        futures = [threads.submit(value, cache, source) for _ in range(10)]
        source.gate.set()
        errors = [future.exception(30) for future in futures]
    assert {str(error) for error in errors} == {"the issuer is down. wait"}
    assert {type(error) for error in errors} == {AuthenticationError}
    assert len({id(error) for error in errors}) == 10
    assert source.fetched == 1
    clock.advance(1)
    assert value(cache, source) == "token-2"


def test_unexpected_error_releases_waiting_threads(cache: TokenCache, clock: ManualClock) -> None:
    class FailingSource(Source):
        def fetch(self) -> Never:
            self.fetched += 1
            raise ConfigError("no such file")

    source = FailingSource(clock)
    for _ in range(2):
        with pytest.raises(ConfigError):
            cache.token(source, POLICY)
    assert source.fetched == 2


def test_only_the_rejected_token_is_dropped(cache: TokenCache, clock: ManualClock) -> None:
    source = Source(clock)
    first = cache.token(source, POLICY)
    cache.forget(first)
    second = cache.token(source, POLICY)
    cache.forget(first)
    assert cache.token(source, POLICY) is second
    assert source.fetched == 2


def test_least_recently_used_tokens_are_evicted(cache: TokenCache, clock: ManualClock) -> None:
    used, unused = Source(clock, cache_key="used"), Source(clock, cache_key="unused")
    value(cache, unused)
    for number in range(MAX_CACHED):
        value(cache, used)
        value(cache, Source(clock, cache_key=str(number)))
    value(cache, used)
    value(cache, unused)
    assert (used.fetched, unused.fetched) == (1, 2)
