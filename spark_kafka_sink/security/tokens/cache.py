"""One token per login for all connections of a process, and its refresh."""

from __future__ import annotations

import random
from collections import OrderedDict
from copy import copy
from dataclasses import dataclass
from threading import Condition
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.security.model import RefreshPolicy
    from spark_kafka_sink.security.tokens.token import Token, TokenSource


RETRY_MS = 10_000
"""After a renewal that failed, the next one waits that long, as in Java."""


def refresh_at_ms(token: Token, policy: RefreshPolicy, now_ms: int, jitter: float) -> int:
    """When to fetch the next token.

    Args:
        token: just fetched.
        policy: sasl.login.refresh.*.
        now_ms: milliseconds since 1970.
        jitter: a random number from 0 to 1.

    Returns:
        Milliseconds since 1970: `window_factor` of the token's life, plus jitter, but not within
        `buffer_seconds` of its end and not before `min_period_seconds` from now. A life too short
        for both of these gives the factor of what is left of it. A token whose end nobody knows
        is kept for the shortest period.
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


KEPT = 64
"""Settings whose tokens are kept; the least recently used ones make room."""
FAILURE_KEPT_MS = 1_000
"""For that long a failed fetch answers others that ask for the same, who would all fail one after
the other. It is short, since what was wrong may be mended by then."""


@dataclass(slots=True)
class _Entry:
    """What is known of one set of settings; guarded by the cache's lock."""

    token: Token | None = None
    refresh_ms: int = 0
    failure: AuthenticationError | None = None
    failed_ms: int = 0
    fetching: bool = False


class TokenCache:
    """Tokens by the settings of their login; thread-safe.

    A token is renewed by the first who asks for it when its time has come. No thread of its own
    does that: connections log in again at 85 to 95 % of their session, which ends with the token
    (KIP-368), and by then a renewal is due. While one renews a token, others go on with it; where
    there is none yet they wait for the one that fetches.

    Args:
        clock: tells the time.
        jitter: a random number from 0 to 1.
    """

    def __init__(
        self, clock: Clock | None = None, jitter: Callable[[], float] = random.random
    ) -> None:
        self._clock = clock or SystemClock()
        self._jitter = jitter
        # Guards `_entries` and what they hold; never held while a token is fetched.
        self._changed = Condition()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def token(self, source: TokenSource, policy: RefreshPolicy) -> Token:
        """A token that is still good: a kept one, or a new one.

        Raises:
            AuthenticationError: as `TokenSource.fetch`; not while an earlier token is still good.
            ConfigError: as `TokenSource.fetch`.
        """
        if source.shared is None:
            return source.fetch()
        entry = self._entry((source.shared, policy))
        with self._changed:
            while True:
                now_ms = self._clock.wall_ms()
                if (kept := _usable(entry, now_ms)) is not None:
                    return kept
                if not entry.fetching:
                    break
                self._changed.wait()
            entry.fetching = True
        return self._fetch(entry, source, policy)

    def forget(self, token: Token) -> None:
        """Give a token to nobody any more: a broker has refused it."""
        with self._changed:
            for entry in self._entries.values():
                if entry.token is not None and entry.token.value == token.value:
                    entry.token = None

    def _entry(self, key: Hashable) -> _Entry:
        with self._changed:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > KEPT:
                self._entries.popitem(last=False)
            return entry

    def _fetch(self, entry: _Entry, source: TokenSource, policy: RefreshPolicy) -> Token:
        try:
            token = source.fetch()
        except AuthenticationError as error:
            return self._failed(entry, error)
        else:
            with self._changed:
                now_ms = self._clock.wall_ms()
                entry.token, entry.failure = token, None
                entry.refresh_ms = refresh_at_ms(token, policy, now_ms, self._jitter())
            return token
        finally:
            with self._changed:
                entry.fetching = False
                self._changed.notify_all()

    def _failed(self, entry: _Entry, error: AuthenticationError) -> Token:
        """The earlier token, while it is good.

        Raises:
            AuthenticationError: `error`, where there is none.
        """
        with self._changed:
            now_ms = self._clock.wall_ms()
            if entry.token is not None and not entry.token.expired(now_ms):
                entry.refresh_ms = now_ms + RETRY_MS
                return entry.token
            entry.token, entry.failure, entry.failed_ms = None, error, now_ms
        raise error


def _usable(entry: _Entry, now_ms: int) -> Token | None:
    """The kept token, if nobody need fetch another one now.

    Raises:
        AuthenticationError: a fetch has just failed.
    """
    token = entry.token
    if token is not None and not token.expired(now_ms):
        return token if now_ms < entry.refresh_ms or entry.fetching else None
    if entry.failure is not None and 0 <= now_ms - entry.failed_ms < FAILURE_KEPT_MS:
        raise copy(entry.failure)  # each thread raises its own, with a trace of its own
    return None


PROCESS_WIDE = TokenCache()
"""Shared by all connections of a worker process."""
