"""Times in log-spaced counters: small to send, exact to add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PER_OCTAVE = 4
MICROSECONDS = 1_000_000


def bucket_of(value: int) -> int:
    """The bucket of a value in microseconds: 0..3 alone, then four to each doubling."""
    if value < PER_OCTAVE:
        return max(value, 0)
    exponent = value.bit_length() - 1
    return PER_OCTAVE * (exponent - 1) + (value >> (exponent - 2)) % PER_OCTAVE


def bucket_top(bucket: int) -> int:
    """The largest value, in microseconds, that falls into a bucket."""
    if bucket < PER_OCTAVE:
        return bucket
    octave, step = divmod(bucket, PER_OCTAVE)
    return ((PER_OCTAVE + step + 1) << (octave - 1)) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How often each time was seen, in microseconds, up to 25 % too large and never too small.

    `buckets` holds (bucket, how often) in rising order, without empty ones. Merging is
    associative and commutative, and `Histogram()` changes nothing.
    """

    buckets: tuple[tuple[int, int], ...] = ()
    total_us: int = 0
    max_us: int = 0

    @property
    def count(self) -> int:
        """How many times were recorded."""
        return sum(times for _, times in self.buckets)

    @property
    def mean_us(self) -> float:
        """The mean in microseconds, exact; 0 of nothing."""
        return self.total_us / self.count if self.buckets else 0.0

    def percentile(self, q: float) -> int:
        """The time in microseconds that `q` percent (0 to 100) do not exceed; 0 of nothing.

        Raises:
            ValueError: `q` is not within 0 to 100.
        """
        if not 0 <= q <= 100:
            raise ValueError(f"a percentile is 0 to 100, not {q}")
        rank = q / 100 * self.count
        running = accumulate(times for _, times in self.buckets)
        reached = (
            bucket for (bucket, _), seen in zip(self.buckets, running, strict=True) if seen >= rank
        )
        return min(bucket_top(next(reached, 0)), self.max_us)

    def merge(self, other: Histogram) -> Histogram:
        """Both together."""
        return Histogram.merge_all((self, other))

    @classmethod
    def merge_all(cls, histograms: Iterable[Histogram]) -> Self:
        """All together."""
        counts: Counter[int] = Counter()
        total = highest = 0
        for histogram in histograms:
            counts.update(dict(histogram.buckets))
            total += histogram.total_us
            highest = max(highest, histogram.max_us)
        return cls(buckets=tuple(sorted(counts.items())), total_us=total, max_us=highest)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it; the percentiles are there to be read, not to be read back."""
        return {
            "count": self.count,
            "mean_us": round(self.mean_us, 1),
            "p50_us": self.percentile(50),
            "p99_us": self.percentile(99),
            "max_us": self.max_us,
            "total_us": self.total_us,
            "buckets": [list(pair) for pair in self.buckets],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        buckets = tuple((int(bucket), int(times)) for bucket, times in data["buckets"])
        return cls(buckets=buckets, total_us=int(data["total_us"]), max_us=int(data["max_us"]))


class HistogramBuilder:
    """Collects times; one thread at a time."""

    __slots__ = ("_counts", "_max", "_total")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._total = 0
        self._max = 0

    def add(self, seconds: float) -> None:
        """Record one time; a negative one counts as none."""
        value = max(round(seconds * MICROSECONDS), 0)
        self._counts[bucket_of(value)] += 1
        self._total += value
        self._max = max(self._max, value)

    def build(self) -> Histogram:
        """What was recorded so far."""
        return Histogram(
            buckets=tuple(sorted(self._counts.items())), total_us=self._total, max_us=self._max
        )
