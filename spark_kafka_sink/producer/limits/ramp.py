"""The ramp-up of rates."""

from __future__ import annotations

from dataclasses import dataclass

_FIRST_FACTOR = 1 / 16
_DOUBLING_S = 1.0
"""Seconds after which the factor doubles."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """The ramp-up of rates after a retry storm or throttling."""

    started_at: float | None = None

    def factor(self, now: float) -> float:
        """Return the factor by which the rates are multiplied, at most 1."""
        if self.started_at is None:
            return 1.0
        doublings = int(max(0.0, now - self.started_at) / _DOUBLING_S)
        return min(1.0, _FIRST_FACTOR * 2.0 ** min(doublings, 8))

    def seconds_until_step(self, now: float) -> float:
        """Return the seconds until the factor increases; infinite at full rate."""
        if self.started_at is None or self.factor(now) >= 1.0:
            return float("inf")
        return _DOUBLING_S - max(0.0, now - self.started_at) % _DOUBLING_S
