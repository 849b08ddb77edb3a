"""Exponential back-off with full jitter (KIP-580; "Advanced Producer Patterns")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_MOST_DOUBLINGS = 30


def full_jitter(attempt: int, base_ms: int, cap_ms: int, random: Random) -> float:
    """Seconds to wait before attempt number `attempt` (0 is the first retry).

    Uniform in (0, min(cap, base * 2 ** attempt)], so that producers that failed together do not
    come back together.
    """
    ceiling = min(cap_ms, base_ms << min(attempt, _MOST_DOUBLINGS))
    return random.uniform(0.0, ceiling) / 1000.0


class RetryTimer:
    """When a request that failed may go again: later after each failure in a row.

    Args:
        base_ms: retry.backoff.ms.
        cap_ms: retry.backoff.max.ms.
        random: draws the jitter.
    """

    def __init__(self, base_ms: int, cap_ms: int, random: Random) -> None:
        self.at = 0.0
        """In seconds of the clock."""
        self._base_ms, self._cap_ms = base_ms, cap_ms
        self._random = random
        self._failures = 0

    def failed(self, now: float) -> None:
        """Wait longer than the time before."""
        self.at = now + full_jitter(self._failures, self._base_ms, self._cap_ms, self._random)
        self._failures += 1

    def worked(self) -> None:
        """The next failure is the first again."""
        self.at, self._failures = 0.0, 0
