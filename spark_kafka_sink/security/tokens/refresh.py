"""When a token is renewed; pure. Source: Java's ExpiringCredentialRefreshingLogin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import RefreshPolicy
    from spark_kafka_sink.security.tokens.token import Token

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
