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
