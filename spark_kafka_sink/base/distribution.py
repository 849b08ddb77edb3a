"""Whole numbers in log-spaced counters: what a histogram of times is, for any unit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.base.histogram import bucket_of, bucket_top

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How often each number was seen; percentiles are up to 25 % too large, never too small.

    `buckets` holds (bucket, how often) in rising order, without empty ones; `total`, `low` and
    `high` are exact, all 0 of nothing. Merging is associative and commutative, and
    `Distribution()` changes nothing.
    """

    buckets: tuple[tuple[int, int], ...] = ()
    total: int = 0
    low: int = 0
    high: int = 0

    @property
    def count(self) -> int:
        """How many numbers were recorded."""
        return sum(times for _, times in self.buckets)

    @property
    def mean(self) -> float:
        """Exact; 0 of nothing."""
        return self.total / self.count if self.buckets else 0.0

    @property
    def deviation(self) -> float:
        """Standard deviation, as far as the buckets tell; 0 of nothing."""
        if not self.buckets:
            return 0.0
        mean = self.mean
        squares = sum(times * (_middle(bucket) - mean) ** 2 for bucket, times in self.buckets)
        return sqrt(squares / self.count)

    def percentile(self, q: float) -> int:
        """The number that `q` percent (0 to 100) do not exceed; 0 of nothing."""
        rank = q / 100 * self.count
        running = accumulate(times for _, times in self.buckets)
        reached = (
            bucket for (bucket, _), seen in zip(self.buckets, running, strict=True) if seen >= rank
        )
        return min(bucket_top(next(reached, 0)), self.high)

    @classmethod
    def merge_all(cls, distributions: Iterable[Distribution]) -> Self:
        """All together."""
        counts: dict[int, int] = {}
        parts = [one for one in distributions if one.buckets]
        for one in parts:
            for bucket, times in one.buckets:
                counts[bucket] = counts.get(bucket, 0) + times
        return cls(
            buckets=tuple(sorted(counts.items())),
            total=sum(one.total for one in parts),
            low=min((one.low for one in parts), default=0),
            high=max((one.high for one in parts), default=0),
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it; mean and percentiles are there to be read, not to be read back."""
        return {
            "count": self.count,
            "mean": round(self.mean, 1),
            "p50": self.percentile(50),
            "p99": self.percentile(99),
            "low": self.low,
            "high": self.high,
            "total": self.total,
            "buckets": [list(pair) for pair in self.buckets],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        return cls(
            buckets=tuple((int(bucket), int(times)) for bucket, times in data["buckets"]),
            total=int(data["total"]),
            low=int(data["low"]),
            high=int(data["high"]),
        )


class DistributionBuilder:
    """Collects numbers; one thread at a time. Negative ones count as 0."""

    __slots__ = ("_counts", "_high", "_low", "_past", "_total")

    def __init__(self) -> None:
        self._past = Distribution()
        self._counts: dict[int, int] = {}
        self._total = self._low = self._high = 0

    def add(self, value: int) -> None:
        """Record one number."""
        value = max(value, 0)
        bucket, counts = bucket_of(value), self._counts
        if not counts or value < self._low:
            self._low = value
        self._high = max(self._high, value)
        counts[bucket] = counts.get(bucket, 0) + 1
        self._total += value

    def add_time(self, seconds: float) -> None:
        """Record a time in microseconds."""
        self.add(int(seconds * 1_000_000))

    def roll(self) -> Distribution:
        """What came in since the last `roll`; `build` goes on counting it."""
        window = self._window()
        self._past = Distribution.merge_all((self._past, window))
        self._counts = {}
        self._total = self._low = self._high = 0
        return window

    def build(self) -> Distribution:
        """Everything so far."""
        return Distribution.merge_all((self._past, self._window()))

    def _window(self) -> Distribution:
        return Distribution(
            # A copy in one step: another thread may be adding.
            buckets=tuple(sorted(self._counts.copy().items())),
            total=self._total,
            low=self._low,
            high=self._high,
        )


def _middle(bucket: int) -> float:
    return (bucket_top(bucket - 1) + 1 + bucket_top(bucket)) / 2 if bucket else 0.0
