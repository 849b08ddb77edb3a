"""Client-side rate limits: token buckets, and a ramp-up after errors. Pure: callers pass the time.

A bucket may be overdrawn: a chunk goes as a whole, and what it took too much is waited for before
the next one. So a limit holds on average, and chunks are kept to a fraction of a second's worth.
Source: "Advanced Producer Patterns" (throttle, recover), see docs/design.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.throttling import RateLimits

_BURST = 0.1
"""Seconds' worth of tokens that a bucket holds: what was not used earlier is not saved up."""

CHUNK_SECONDS = 0.25
"""Seconds' worth of rows that may go at once."""

_SHORTEST = 0.0005
"""Seconds below which it is not worth waiting: the debt stays in the bucket."""

_MEASURED_SECONDS = 10.0
_SAMPLE_SECONDS = 0.5
_LEAST_SECONDS = 1.0
"""What is measured: so many seconds at most, noted so often, and no rate from less than the last.
"""

_START = 1 / 16
_DOUBLING = 1.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """`rate` tokens a second; `level` tokens at time `at`, below zero when overdrawn."""

    rate: float
    level: float = 0.0
    at: float = 0.0

    def refilled(self, now: float, factor: float) -> Bucket:
        """The bucket now, if it has been filled at `factor` times its rate since."""
        gained = max(0.0, now - self.at) * self.rate * factor
        return replace(self, level=min(self.level + gained, self.rate * _BURST), at=now)

    def taken(self, amount: float) -> Bucket:
        """The bucket after something was taken out of it."""
        return replace(self, level=self.level - amount)

    def wait(self, factor: float) -> float:
        """Seconds until something may be taken again, at `factor` times the rate."""
        return max(0.0, -self.level / (self.rate * factor))


@dataclass(frozen=True, slots=True)
class Ramp:
    """After a retry storm or throttling, a limit restarts at 1/16 and doubles every second."""

    troubled_at: float | None = None

    def factor(self, now: float) -> float:
        """What the rates are multiplied by, 1/16 to 1."""
        if self.troubled_at is None:
            return 1.0
        doublings = int(max(0.0, now - self.troubled_at) / _DOUBLING)
        return min(1.0, _START * 2.0 ** min(doublings, 8))

    def next_step(self, now: float) -> float:
        """Seconds until the factor changes by itself; infinite at full rate."""
        if self.troubled_at is None or self.factor(now) >= 1.0:
            return float("inf")
        return _DOUBLING - max(0.0, now - self.troubled_at) % _DOUBLING


class Speedometer:
    """Bytes a second over the last seconds."""

    def __init__(self) -> None:
        self._total = 0
        self._samples: deque[tuple[float, int]] = deque()
        """Times, and the bytes that had been taken before them."""

    def add(self, size: int, now: float) -> None:
        """So many bytes go now."""
        if not self._samples or now >= self._samples[-1][0] + _SAMPLE_SECONDS:
            self._samples.append((now, self._total))
            while self._samples[0][0] < now - _MEASURED_SECONDS:
                self._samples.popleft()
        self._total += size

    def rate(self) -> float | None:
        """Bytes a second; None where too little was seen for that."""
        if not self._samples:
            return None
        (start, before), (stop, after) = self._samples[0], self._samples[-1]
        return (after - before) / (stop - start) if stop - start >= _LEAST_SECONDS else None

    def clear(self) -> None:
        """Measure anew."""
        self._samples.clear()


class RateLimiter:
    """The buckets of one task; writer thread only.

    Where no limit is given, what was measured before the trouble is one until the ramp has ended.
    """

    def __init__(self, limits: RateLimits, now: float) -> None:
        self._records = Bucket(limits.records, at=now) if limits.records else None
        self._bytes = Bucket(limits.size, at=now) if limits.size else None
        self._given = self.limited
        self._speed = Speedometer()
        self._usual: float | None = None
        """Bytes a second before the latest trouble; a slow rate is never the measure."""
        self._now = now
        self._factor = 1.0
        self._next_step = float("inf")

    @property
    def limited(self) -> bool:
        """Whether there is any limit now."""
        return self._records is not None or self._bytes is not None

    def chunk(self, rows: int, size: int) -> tuple[int, int]:
        """Most rows and bytes that may go at once, given the most that are wanted."""
        if self._records is not None:
            rows = min(rows, max(1, int(self._records.rate * CHUNK_SECONDS)))
        if self._bytes is not None:
            size = min(size, max(1, int(self._bytes.rate * CHUNK_SECONDS)))
        return rows, size

    def refill(self, now: float, ramp: Ramp) -> None:
        """Time has passed: fill the buckets at the rates that the ramp allows."""
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
        """Seconds to wait before the next chunk, as of the latest `refill`.

        Refill and ask again then: the ramp may have changed.
        """
        buckets = [bucket for bucket in (self._records, self._bytes) if bucket is not None]
        longest = max((bucket.wait(self._factor) for bucket in buckets), default=0.0)
        wait = min(longest, self._next_step)
        return wait if wait >= _SHORTEST else 0.0

    def acquire(self, rows: int, size: int) -> None:
        """A chunk goes, at the time of the latest `refill`."""
        if not self._given and self._bytes is None:
            self._speed.add(size, self._now)
        if self._records is not None:
            self._records = self._records.taken(rows)
        if self._bytes is not None:
            self._bytes = self._bytes.taken(size)

    def _follow(self, factor: float, now: float) -> None:
        """While the ramp lasts, what was measured is the limit."""
        if factor >= 1.0:
            self._bytes = None
        elif self._bytes is None:
            self._usual = self._speed.rate() or self._usual
            self._speed.clear()
            self._bytes = Bucket(self._usual, at=now) if self._usual else None
