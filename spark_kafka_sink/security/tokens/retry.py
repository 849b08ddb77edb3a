"""When an issuer is asked again; pure. Source: Java's oauthbearer `Retry`."""

from __future__ import annotations


def next_wait_ms(
    attempts: int, elapsed_ms: float, backoff_ms: int, backoff_max_ms: int
) -> float | None:
    """How long to wait before the next attempt.

    Args:
        attempts: made so far, at least one.
        elapsed_ms: since the first one began.
        backoff_ms: sasl.login.retry.backoff.ms; doubles with each attempt.
        backoff_max_ms: sasl.login.retry.backoff.max.ms: as in Java, of all attempts together.

    Returns:
        Milliseconds, or None to give up.
    """
    wait = min(backoff_ms * 2.0 ** min(attempts - 1, 60), backoff_max_ms - elapsed_ms)
    return wait if wait > 0 else None
