"""Whole numbers, such as times in microseconds or sizes in bytes, counted in log-spaced buckets.

Small to send, and exact to add up: the buckets are the same for every histogram.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_FINE = 7
"""Buckets for each doubling, as a power of two: a bucket is under 1 % of its numbers wide."""
_COARSE = 2
"""The same for steps, of which a picture or a time series database takes few."""
PER_OCTAVE = 1 << _FINE
"""Buckets between a number and its double; numbers below this have a bucket each."""
_MANY = 1024
"""Numbers that are sorted into buckets at once."""


def bucket_of(value: int, bits: int = _FINE) -> int:
    """Return the bucket of a whole number; `bits` is the power of two of buckets per doubling."""
    if value < 1 << bits:
        return max(value, 0)
    exponent = value.bit_length() - 1
    return ((exponent - bits + 1) << bits) + (value >> (exponent - bits)) % (1 << bits)


def bucket_top(bucket: int, bits: int = _FINE) -> int:
    """Return the largest number that falls into a bucket."""
    if bucket < 1 << bits:
        return bucket
    octave, step = divmod(bucket, 1 << bits)
    return (((1 << bits) + step + 1) << (octave - 1)) - 1


def step_top(step: int) -> int:
    """Return the largest number that falls into a step; see `Histogram.steps`."""
    return bucket_top(step, _COARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How often each number was seen; percentiles are at most 1 % too large, never too small.

    `buckets` holds (bucket, how often) in rising order, without empty ones; `total`, `low` and
    `high` are exact, all 0 of nothing. Merging is associative and commutative, and
    `Histogram()` changes nothing.
    """

    buckets: tuple[tuple[int, int], ...] = ()
    total: int = 0
    low: int = 0
    high: int = 0

    def __reduce__(self) -> tuple[Callable[..., Histogram], tuple[object, ...]]:
        """Quicker than what a frozen dataclass has, as a report has hundreds."""
        return _histogram, (self.buckets, self.total, self.low, self.high)

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
        """Standard deviation, based on the buckets; 0 of nothing and of equal numbers."""
        if self.low == self.high:
            return 0.0
        values = [(self._middle(bucket), times) for bucket, times in self.buckets]
        mean = sum(value * times for value, times in values) / self.count
        return sqrt(sum(times * (value - mean) ** 2 for value, times in values) / self.count)

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """(step, how often) in rising order: the buckets in four steps for each doubling."""
        counts: dict[int, int] = {}
        for bucket, times in self.buckets:
            step = bucket_of(bucket_top(bucket), _COARSE)
            counts[step] = counts.get(step, 0) + times
        return tuple(counts.items())

    def percentile(self, q: float) -> int:
        """The number that `q` percent (0 to 100) do not exceed; 0 of nothing.

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
        return min(bucket_top(next(reached, 0)), self.high)

    @classmethod
    def merge_all(cls, histograms: Iterable[Histogram]) -> Self:
        """All together."""
        counts: dict[int, int] = {}
        parts = [one for one in histograms if one.buckets]
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
            "buckets_per_doubling": PER_OCTAVE,
            "buckets": [list(pair) for pair in self.buckets],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        return cls(
            buckets=read_buckets(data),
            total=int(data["total"]),
            low=int(data["low"]),
            high=int(data["high"]),
        )

    def _middle(self, bucket: int) -> float:
        """The middle of the part of a bucket that lies between `low` and `high`."""
        bottom = bucket_top(bucket - 1) + 1 if bucket else 0
        return (max(bottom, self.low) + min(bucket_top(bucket), self.high)) / 2


def read_buckets(data: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Read the buckets of a histogram in a report, also of one that has four to a doubling.

    Raises:
        ValueError: there is another number of buckets to a doubling.
    """
    pairs = [(int(bucket), int(times)) for bucket, times in data["buckets"]]
    per_octave = int(data.get("buckets_per_doubling", 1 << _COARSE))
    if per_octave == 1 << _COARSE:
        return tuple((bucket_of(bucket_top(bucket, _COARSE)), times) for bucket, times in pairs)
    if per_octave != PER_OCTAVE:
        raise ValueError(f"a histogram with {per_octave} buckets per doubling")
    return tuple(pairs)


def _histogram(buckets: tuple[tuple[int, int], ...], total: int, low: int, high: int) -> Histogram:
    """For pickle."""
    return Histogram(buckets=buckets, total=total, low=low, high=high)


class HistogramBuilder:
    """Collects numbers; one thread adds, any thread may `build`. Negative ones count as 0.

    A number is only put on a list when it comes, as it comes for each batch; they are sorted into
    buckets many at once.
    """

    __slots__ = ("_lock", "_new", "_past", "_times", "_window")

    def __init__(self) -> None:
        self._lock = Lock()
        self._new: list[int] = []
        self._times: list[int] = []
        """How often each number of `_new` counts, which has it before `_times` has."""
        self._window = Histogram()
        self._past = Histogram()

    def add(self, value: int, times: int = 1) -> None:
        """Record a number, once or several times."""
        new = self._new
        new.append(value)
        self._times.append(times)
        if len(new) >= _MANY:
            self._fold()

    def add_time(self, seconds: float, times: int = 1) -> None:
        """Record a time in microseconds."""
        self.add(round(seconds * 1_000_000), times)

    def add_times(self, seconds: Sequence[tuple[float, int]]) -> None:
        """Record several times in microseconds, each as often as it says."""
        self._new += [round(each * 1_000_000) for each, _ in seconds]
        self._times += [times for _, times in seconds]
        if len(self._new) >= _MANY:
            self._fold()

    def roll(self) -> Histogram:
        """What came in since the last `roll`; `build` goes on counting it. For who adds."""
        self._fold()
        with self._lock:
            window, self._window = self._window, Histogram()
            self._past = Histogram.merge_all((self._past, window))
        return window

    def build(self) -> Histogram:
        """Everything so far."""
        with self._lock:
            times = self._times.copy()
            new = _sorted(self._new[: len(times)], times)
            return Histogram.merge_all((self._past, self._window, new))

    def _fold(self) -> None:
        with self._lock:
            new = _sorted(self._new, self._times)
            self._window = Histogram.merge_all((self._window, new))
            self._new, self._times = [], []


def _sorted(numbers: list[int], times: list[int]) -> Histogram:
    """Numbers in the buckets that `bucket_of` puts them into, each as often as it counts."""
    if not numbers:
        return Histogram()
    values = np.maximum(np.array(numbers, np.int64), 0)
    exponents = np.frexp(values)[1].astype(np.int64) - 1
    steps = (values >> np.maximum(exponents - _FINE, 0)) % PER_OCTAVE
    octaves = (exponents - _FINE + 1) << _FINE
    buckets = np.where(values < PER_OCTAVE, values, octaves + steps)
    weights = np.array(times, np.int64)
    found, places = np.unique(buckets, return_inverse=True)
    counts = np.zeros(len(found), np.int64)
    np.add.at(counts, places, weights)
    return Histogram(
        buckets=tuple(zip(found.tolist(), counts.tolist(), strict=True)),
        total=int((values * weights).sum()),
        low=int(values.min()),
        high=int(values.max()),
    )
