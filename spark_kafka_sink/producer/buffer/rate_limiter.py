"""Client-side rate limits: token buckets, and a ramp-up after errors. Callers pass the time.

A bucket may be overdrawn: the tokens of a whole chunk are taken at once, and the next chunk waits
until the deficit is refilled. Therefore, a limit is met on average, and a chunk uses at most the
tokens for a fraction of a second.

Source: "Advanced Producer Patterns" (throttle, recover), see docs/design.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.throttling import RateLimits

_BURST = 0.1
"""Capacity of a bucket, as the number of seconds in which it fills; excess tokens are lost."""

CHUNK_SECONDS = 0.25
"""Maximum size of a chunk, as the number of seconds that its tokens take to refill."""

_SHORTEST = 0.0005
"""Waits shorter than this many seconds are skipped; the deficit stays in the bucket."""

_MEASURED_SECONDS = 10.0
_SAMPLE_SECONDS = 0.5
_LEAST_SECONDS = 1.0
"""Speed measurement: longest window, sample interval, and shortest window for a rate, in
seconds."""

_START = 1 / 16
_DOUBLING = 1.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket: `rate` tokens per second, `level` tokens at time `at` (may be negative)."""

    rate: float
    level: float = 0.0
    at: float = 0.0

    def refilled(self, now: float, factor: float) -> Bucket:
        """Return the bucket as of `now`, refilled since `at` at `factor` times its rate."""
        gained = max(0.0, now - self.at) * self.rate * factor
        return replace(self, level=min(self.level + gained, self.rate * _BURST), at=now)

    def taken(self, amount: float) -> Bucket:
        """Return the bucket after removing `amount` tokens."""
        return replace(self, level=self.level - amount)

    def wait(self, factor: float) -> float:
        """Return the seconds until the level reaches zero, at `factor` times the rate."""
        return max(0.0, -self.level / (self.rate * factor))


@dataclass(frozen=True, slots=True)
class Ramp:
    """The ramp-up after a retry storm or throttling: starts at 1/16 and doubles every second."""

    troubled_at: float | None = None

    def factor(self, now: float) -> float:
        """Return the factor by which the rates are multiplied, from 1/16 to 1."""
        if self.troubled_at is None:
            return 1.0
        doublings = int(max(0.0, now - self.troubled_at) / _DOUBLING)
        return min(1.0, _START * 2.0 ** min(doublings, 8))

    def next_step(self, now: float) -> float:
        """Return the seconds until the factor increases; infinite at full rate."""
        if self.troubled_at is None or self.factor(now) >= 1.0:
            return float("inf")
        return _DOUBLING - max(0.0, now - self.troubled_at) % _DOUBLING


class RateMeter:
    """Measures the rate of the last few seconds, in bytes per second."""

    def __init__(self) -> None:
        self._total = 0
        self._samples: deque[tuple[float, int]] = deque()
        """The time of each sample, and the total number of bytes at that time."""

    def add(self, size: int, now: float) -> None:
        """Record that `size` bytes were taken now."""
        if not self._samples or now >= self._samples[-1][0] + _SAMPLE_SECONDS:
            self._samples.append((now, self._total))
            while self._samples[0][0] < now - _MEASURED_SECONDS:
                self._samples.popleft()
        self._total += size

    def rate(self) -> float | None:
        """Return bytes per second; None if the measured time is too short."""
        if not self._samples:
            return None
        (start, before), (stop, after) = self._samples[0], self._samples[-1]
        return (after - before) / (stop - start) if stop - start >= _LEAST_SECONDS else None

    def clear(self) -> None:
        """Restart the measurement."""
        self._samples.clear()


class RateLimiter:
    """The buckets of one task; writer thread only.

    Without a configured limit, the rate measured before the errors is the limit until the ramp
    ends.
    """

    def __init__(self, limits: RateLimits, now: float) -> None:
        self._records = Bucket(limits.records, at=now) if limits.records else None
        self._bytes = Bucket(limits.size, at=now) if limits.size else None
        self._given = self.limited
        self._speed = RateMeter()
        self._normal_rate: float | None = None
        """Rate before the latest errors, in bytes per second; it is not measured during a ramp."""
        self._now = now
        self._factor = 1.0
        self._next_step = float("inf")

    @property
    def limited(self) -> bool:
        """True if any limit currently applies."""
        return self._records is not None or self._bytes is not None

    def chunk(self, rows: int, size: int) -> tuple[int, int]:
        """Return the maximum rows and bytes of a chunk, at most `rows` and `size`."""
        if self._records is not None:
            rows = min(rows, max(1, int(self._records.rate * CHUNK_SECONDS)))
        if self._bytes is not None:
            size = min(size, max(1, int(self._bytes.rate * CHUNK_SECONDS)))
        return rows, size

    def refill(self, now: float, ramp: Ramp) -> None:
        """Refill the buckets up to `now` at the rates that the ramp allows."""
        factor = ramp.factor(now)
        if not self._given:
            self._follow(factor, now)
        if self._records is not None:
            self._records = self._records.refilled(now, factor)
        if self._bytes is not None:
            self._bytes = self._bytes.refilled(now, factor)
        self._now, self._factor, self._next_step = now, factor, ramp.next_step(now)

    @property
    def wait(self) -> float:
        """Return the seconds to wait before the next chunk, as of the latest `refill`.

        After the wait, refill and check again: the ramp may have changed.
        """
        buckets = [bucket for bucket in (self._records, self._bytes) if bucket is not None]
        longest = max((bucket.wait(self._factor) for bucket in buckets), default=0.0)
        wait = min(longest, self._next_step)
        return wait if wait >= _SHORTEST else 0.0

    def acquire(self, rows: int, size: int) -> None:
        """Take a chunk's tokens from the buckets, using their levels at the latest `refill`."""
        if not self._given and self._bytes is None:
            self._speed.add(size, self._now)
        if self._records is not None:
            self._records = self._records.taken(rows)
        if self._bytes is not None:
            self._bytes = self._bytes.taken(size)

    def _follow(self, factor: float, now: float) -> None:
        """Use the measured rate as the limit while the ramp lasts."""
        if factor >= 1.0:
            self._bytes = None
        elif self._bytes is None:
            self._normal_rate = self._speed.rate() or self._normal_rate
            self._speed.clear()
            self._bytes = Bucket(self._normal_rate, at=now) if self._normal_rate else None
