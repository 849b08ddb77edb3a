"""The tokens of a process, one per login, which all its connections share."""

from __future__ import annotations

import random
from collections import OrderedDict
from copy import copy
from dataclasses import dataclass
from threading import Condition
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.common.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from spark_kafka_sink.config.security.security_config import RefreshPolicy
    from spark_kafka_sink.kafka.security.tokens.token import Token, TokenSource


_RETRY_MS = 10_000
"""Milliseconds between a failed refresh and the next attempt, as in Java."""
MAX_CACHED = 64
"""Maximum number of logins whose tokens are cached. The least recently used login is dropped first.
"""
_WAIT_S = 60.0
"""Maximum seconds that a thread without a valid token waits for a different thread's request. Each
connection that waits uses one of a limited number of threads.
"""
_FAILURE_CACHED_MS = 1_000
"""Milliseconds during which a failed fetch also fails other requests for the same token. Otherwise,
these requests would fail one after another. The time is short because the problem might be fixed
soon.
"""


def refresh_at_ms(token: Token, policy: RefreshPolicy, now_ms: int, jitter: float) -> int:
    """Return the time at which to fetch the next token.

    Args:
        token: the token just fetched.
        policy: sasl.login.refresh.*.
        now_ms: current time in milliseconds since 1970.
        jitter: a random number from 0 to 1.

    Returns:
        The time in milliseconds since 1970, after `window_factor` of the token's lifetime plus
        jitter, but not within `buffer_seconds` of its expiry and not before `min_period_seconds`
        from now. If the lifetime is too short for both limits, the factor is applied to the
        remaining lifetime. A token with unknown expiry is refreshed after `min_period_seconds`.
    """
    min_period_ms, buffer_ms = policy.min_period_seconds * 1_000, policy.buffer_seconds * 1_000
    expires_ms = token.expires_ms
    if expires_ms is None:
        return now_ms + min_period_ms
    if expires_ms <= now_ms:
        return now_ms
    factor = policy.window_factor + policy.window_jitter * jitter
    if now_ms + min_period_ms + buffer_ms > expires_ms:
        return now_ms + int((expires_ms - now_ms) * factor)
    starts_ms = now_ms if token.starts_ms is None else token.starts_ms
    planned_ms = starts_ms + int((expires_ms - starts_ms) * factor)
    return max(min(planned_ms, expires_ms - buffer_ms), now_ms + min_period_ms)


@dataclass(slots=True)
class _CachedToken:
    """The cache entry of a login. Guarded by the cache's lock."""

    token: Token | None = None
    refresh_ms: int = 0
    failure: AuthenticationError | None = None
    failed_ms: int = 0
    fetching: bool = False


class TokenCache:
    """Thread-safe cache of tokens by login settings.

    A token is refreshed by the first thread that requests it after its refresh time. No background
    thread is needed: connections re-authenticate at 85 to 95% of their session lifetime, which
    ends when the token expires (KIP-368), and the refresh time is earlier. While one thread
    refreshes a token, other threads continue to use the old token. If there is no token yet, they
    wait for the thread that fetches it.

    Args:
        clock: clock for expiry and refresh times.
        jitter: returns a random number from 0 to 1.
        wait_s: see `_WAIT_S`.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        wait_s: float = _WAIT_S,
    ) -> None:
        self._wait_s = wait_s
        self._clock = clock or SystemClock()
        self._jitter = jitter
        # Guards `_entries` and their content. Not held while a token is fetched.
        self._changed = Condition()
        self._entries: OrderedDict[Hashable, _CachedToken] = OrderedDict()

    def token(self, source: TokenSource, policy: RefreshPolicy) -> Token:
        """Return a valid token, from the cache or newly fetched.

        Raises:
            AuthenticationError: see `TokenSource.fetch`; not raised while a cached token is valid.
            ConfigError: see `TokenSource.fetch`.
            TimeoutError: a different thread is still requesting the token.
        """
        if source.cache_key is None:
            return source.fetch()
        entry = self._entry((source.cache_key, policy))
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_settled(entry), self._wait_s):
                raise TimeoutError(
                    f"a different thread has not received a token within {self._wait_s:g} s"
                )
            if (kept := _usable_token(entry, self._clock.wall_ms())) is not None:
                return kept
            entry.fetching = True
        return self._fetch(entry, source, policy)

    def forget(self, token: Token) -> None:
        """Drop a token that a broker rejected."""
        with self._changed:
            for entry in self._entries.values():
                if entry.token is not None and entry.token.value == token.value:
                    entry.token = None

    def _is_settled(self, entry: _CachedToken) -> bool:
        return not entry.fetching or _usable_token(entry, self._clock.wall_ms()) is not None

    def _entry(self, key: Hashable) -> _CachedToken:
        with self._changed:
            entry = self._entries.setdefault(key, _CachedToken())
            self._entries.move_to_end(key)
            if len(self._entries) > MAX_CACHED:
                self._entries.popitem(last=False)
            return entry

    def _fetch(self, entry: _CachedToken, source: TokenSource, policy: RefreshPolicy) -> Token:
        try:
            token = source.fetch()
        except AuthenticationError as error:
            return self._token_after_failure(entry, error)
        else:
            with self._changed:
                now_ms = self._clock.wall_ms()
                entry.token = token
                entry.failure = None
                entry.refresh_ms = refresh_at_ms(token, policy, now_ms, self._jitter())
            return token
        finally:
            with self._changed:
                entry.fetching = False
                self._changed.notify_all()

    def _token_after_failure(self, entry: _CachedToken, error: AuthenticationError) -> Token:
        """Return the previous token if it is still valid.

        Raises:
            AuthenticationError: `error`, if there is no valid token.
        """
        with self._changed:
            now_ms = self._clock.wall_ms()
            if entry.token is not None and not entry.token.is_expired(now_ms):
                entry.refresh_ms = now_ms + _RETRY_MS
                return entry.token
            entry.token = None
            entry.failure = error
            entry.failed_ms = now_ms
        raise error


shared_tokens = TokenCache()
"""The tokens of this process, for all of its connections."""


def _usable_token(entry: _CachedToken, now_ms: int) -> Token | None:
    """Return the cached token, or None if a token must be fetched now.

    Raises:
        AuthenticationError: a fetch failed a short time ago.
    """
    token = entry.token
    if token is not None and not token.is_expired(now_ms):
        return token if now_ms < entry.refresh_ms or entry.fetching else None
    if entry.failure is not None and 0 <= now_ms - entry.failed_ms < _FAILURE_CACHED_MS:
        raise copy(entry.failure)  # Raising an exception changes its traceback.
    return None
