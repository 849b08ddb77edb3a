"""Exponential backoff with full jitter.

Source: KIP-580, "Advanced Producer Patterns".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_MAX_DOUBLINGS = 30


def full_jitter(attempt: int, base_ms: int, cap_ms: int, random: Random) -> float:
    """Return the delay in seconds before retry number `attempt` (0 is the first retry).

    The delay is uniformly distributed in (0, min(cap, base * 2 ** attempt)], so that producers that
    failed at the same time do not retry at the same time.
    """
    ceiling = min(cap_ms, base_ms << min(attempt, _MAX_DOUBLINGS))
    return random.uniform(0.0, ceiling) / 1000.0


class RetryTimer:
    """Schedules retries of a request. The delay increases with each failure.

    Args:
        base_ms: retry.backoff.ms.
        cap_ms: retry.backoff.max.ms.
        random: source of the jitter.
    """

    def __init__(self, base_ms: int, cap_ms: int, random: Random) -> None:
        self.at = 0.0
        """Time of the next attempt, in seconds of the caller's clock."""
        self._base_ms, self._cap_ms = base_ms, cap_ms
        self._random = random
        self._failures = 0

    def record_failure(self, now: float) -> None:
        """Schedule the next retry after a failure at `now`."""
        self.at = now + full_jitter(self._failures, self._base_ms, self._cap_ms, self._random)
        self._failures += 1

    def record_success(self) -> None:
        """Reset the timer after a success."""
        self.at, self._failures = 0.0, 0
