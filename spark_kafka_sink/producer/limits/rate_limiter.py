"""Rate limits for the rows of one task.

Rate limits are token buckets, which may be overdrawn: the tokens of a whole chunk are taken at
once, and the next chunk waits until the deficit is refilled. Therefore, a limit is met on average,
and a chunk uses at most the tokens for a fraction of a second.

Source: "Advanced Producer Patterns" (throttle, recover), see docs/sources.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.throttling import RateLimits
    from spark_kafka_sink.producer.limits.ramp import Ramp

_BURST = 0.1
"""Capacity of a bucket, as the number of seconds in which it fills; excess tokens are lost."""

_CHUNK_S = 0.25
"""Maximum size of a chunk, as the number of seconds that its tokens take to refill."""

_MIN_WAIT_S = 0.0005
"""Waits shorter than this many seconds are skipped; the deficit stays in the bucket."""

_MAX_WINDOW_S = 10.0
"""Longest window of a rate measurement in seconds."""
_SAMPLE_INTERVAL_S = 0.5
"""Seconds between samples."""
_MIN_WINDOW_S = 1.0
"""Shortest window for a rate in seconds."""


@dataclass(slots=True)
class TokenBucket:
    """A token bucket."""

    rate: float
    """Tokens per second; 0 for no limit."""
    level: float = 0.0
    """Tokens at `refilled_at`; may be negative."""
    refilled_at: float = 0.0

    def refill(self, now: float, factor: float) -> None:
        """Add the tokens since `refilled_at`, at `factor` times the rate."""
        gained = max(0.0, now - self.refilled_at) * self.rate * factor
        self.level, self.refilled_at = min(self.level + gained, self.rate * _BURST), now

    def spend(self, amount: float) -> None:
        """Remove `amount` tokens."""
        self.level -= amount

    def seconds_until_due(self, factor: float) -> float:
        """Return the seconds until the level reaches zero, at `factor` times the rate."""
        return max(0.0, -self.level / (self.rate * factor)) if self.rate else 0.0

    def max_chunk(self, limit: int) -> int:
        """Return the maximum number of tokens for a chunk, at most `limit`."""
        return min(limit, max(1, int(self.rate * _CHUNK_S))) if self.rate else limit


class _RateMeter:
    """Measures the rate of the last few seconds, in bytes per second."""

    def __init__(self) -> None:
        self._total = 0
        self._samples: deque[tuple[float, int]] = deque()
        """The time of each sample, and the total number of bytes at that time."""

    def add(self, size: int, now: float) -> None:
        """Record that `size` bytes were taken now."""
        if not self._samples or now >= self._samples[-1][0] + _SAMPLE_INTERVAL_S:
            self._samples.append((now, self._total))
            while self._samples[0][0] < now - _MAX_WINDOW_S:
                self._samples.popleft()
        self._total += size

    def rate(self) -> float | None:
        """Return bytes per second; None if the measured time is too short."""
        if not self._samples:
            return None
        (start, before), (stop, after) = self._samples[0], self._samples[-1]
        return (after - before) / (stop - start) if stop - start >= _MIN_WINDOW_S else None

    def clear(self) -> None:
        """Restart the measurement."""
        self._samples.clear()


class RateLimiter:
    """The buckets of one task; writer thread only.

    Without a configured limit, the rate measured before the errors is the limit until the ramp
    ends.
    """

    def __init__(self, limits: RateLimits, now: float) -> None:
        self._records = TokenBucket(limits.records_per_second, refilled_at=now)
        self._bytes = TokenBucket(limits.bytes_per_second, refilled_at=now)
        self._is_configured = self.is_limited
        self._rate_meter = _RateMeter()
        self._normal_rate: float | None = None
        """Rate before the latest errors, in bytes per second; it is not measured during a ramp."""
        self._refilled_at = now
        self._factor = 1.0
        self._next_step = float("inf")

    @property
    def is_limited(self) -> bool:
        """True if any limit currently applies."""
        return bool(self._records.rate or self._bytes.rate)

    def max_chunk(self, rows: int, size: int) -> tuple[int, int]:
        """Return the maximum rows and bytes of a chunk, at most `rows` and `size`."""
        return self._records.max_chunk(rows), self._bytes.max_chunk(size)

    def refill(self, now: float, ramp: Ramp) -> None:
        """Refill the buckets up to `now` at the rates that the ramp allows."""
        factor = ramp.factor(now)
        if not self._is_configured:
            self._limit_during_ramp(factor, now)
        self._records.refill(now, factor)
        self._bytes.refill(now, factor)
        self._refilled_at = now
        self._factor = factor
        self._next_step = ramp.seconds_until_step(now)

    def seconds_until_due(self) -> float:
        """Return the seconds to wait before the next chunk, as of the latest `refill`.

        After the wait, refill and check again: the ramp may have changed.
        """
        longest = max(
            self._records.seconds_until_due(self._factor),
            self._bytes.seconds_until_due(self._factor),
        )
        return max(min(longest, self._next_step), _MIN_WAIT_S) if longest >= _MIN_WAIT_S else 0.0

    def acquire(self, rows: int, size: int) -> None:
        """Take a chunk's tokens from the buckets, using their levels at the latest `refill`."""
        if not self.is_limited:
            self._rate_meter.add(size, self._refilled_at)
        self._records.spend(rows)
        self._bytes.spend(size)

    def _limit_during_ramp(self, factor: float, now: float) -> None:
        """Use the measured rate as the limit while the ramp lasts."""
        if factor >= 1.0:
            self._bytes = TokenBucket(0.0)
        elif not self._bytes.rate:
            self._normal_rate = self._rate_meter.rate() or self._normal_rate
            self._rate_meter.clear()
            self._bytes = TokenBucket(self._normal_rate or 0.0, refilled_at=now)
