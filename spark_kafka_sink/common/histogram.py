"""Distributions of whole numbers, such as times in microseconds or sizes in bytes.

Numbers are counted in log-spaced buckets. The buckets are the same in every histogram, so
histograms are small to send and merge exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MICROS_PER_S = 1_000_000
_FINE = 7
"""Base-2 logarithm of the number of buckets per doubling. The width of a bucket is less than 1% of
its numbers.
"""
_COARSE = 2
"""Base-2 logarithm of the number of steps per doubling. Charts and time series databases need few
steps.
"""
PER_OCTAVE = 1 << _FINE
"""Number of buckets between a number and its double. Each number below this has its own bucket."""
_MANY = 1024
"""Number of values that are sorted into buckets at once."""


def bucket_of(value: int, bits: int = _FINE) -> int:
    """Return the bucket of a whole number, with 2 ** `bits` buckets per doubling."""
    if value < 1 << bits:
        return max(value, 0)
    exponent = value.bit_length() - 1
    return ((exponent - bits + 1) << bits) + (value >> (exponent - bits)) % (1 << bits)


def bucket_top(bucket: int, bits: int = _FINE) -> int:
    """Return the largest number that belongs to a bucket."""
    if bucket < 1 << bits:
        return bucket
    octave, step = divmod(bucket, 1 << bits)
    return (((1 << bits) + step + 1) << (octave - 1)) - 1


def step_top(step: int) -> int:
    """Return the largest number in a step. See `Histogram.steps`."""
    return bucket_top(step, _COARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A distribution of whole numbers. Percentiles are at most 1% too large, never too small.

    The sum `total`, the minimum `low` and the maximum `high` are exact, and 0 if the histogram is
    empty. Merging is associative and commutative, with `Histogram()` as the identity element.
    """

    buckets: tuple[tuple[int, int], ...] = ()
    """(bucket, count) in ascending order, without empty buckets."""
    total: int = 0
    low: int = 0
    high: int = 0

    def __reduce__(self) -> tuple[Callable[..., Histogram], tuple[object, ...]]:
        """Pickle faster than a frozen dataclass, because a report has hundreds of histograms."""
        return _histogram, (self.buckets, self.total, self.low, self.high)

    @property
    def count(self) -> int:
        """The number of recorded values."""
        return sum(count for _, count in self.buckets)

    @property
    def mean(self) -> float:
        """The exact mean; 0 if empty."""
        return self.total / self.count if self.buckets else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation, based on the buckets; 0 if empty or if all numbers are equal."""
        if self.low == self.high:
            return 0.0
        values = [(self._middle_of_bucket(bucket), count) for bucket, count in self.buckets]
        mean = sum(value * count for value, count in values) / self.count
        return sqrt(sum(count * (value - mean) ** 2 for value, count in values) / self.count)

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """The buckets, merged into four steps per doubling, as (step, count) in ascending order."""
        counts: dict[int, int] = {}
        for bucket, count in self.buckets:
            step = bucket_of(bucket_top(bucket), _COARSE)
            counts[step] = counts.get(step, 0) + count
        return tuple(counts.items())

    def percentile(self, percent: float) -> int:
        """Return the number that `percent` % (0 to 100) of the numbers do not exceed; 0 if empty.

        Raises:
            ValueError: `percent` is not within 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile must be from 0 to 100, not {percent}")
        rank = percent / 100 * self.count
        running = accumulate(count for _, count in self.buckets)
        reached = (
            bucket for (bucket, _), seen in zip(self.buckets, running, strict=True) if seen >= rank
        )
        return min(bucket_top(next(reached, 0)), self.high)

    @classmethod
    def merge_all(cls, histograms: Iterable[Histogram]) -> Self:
        """Return the sum of all histograms."""
        counts: dict[int, int] = {}
        parts = [histogram for histogram in histograms if histogram.buckets]
        for part in parts:
            for bucket, count in part.buckets:
                counts[bucket] = counts.get(bucket, 0) + count
        return cls(
            buckets=tuple(sorted(counts.items())),
            total=sum(part.total for part in parts),
            low=min((part.low for part in parts), default=0),
            high=max((part.high for part in parts), default=0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the histogram for JSON; `from_dict` ignores mean and percentiles."""
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
        """Parse the result of `to_dict`."""
        return cls(
            buckets=_read_buckets(data),
            total=int(data["total"]),
            low=int(data["low"]),
            high=int(data["high"]),
        )

    def _middle_of_bucket(self, bucket: int) -> float:
        """Return the middle of a bucket, or of its part between `low` and `high`."""
        bottom = bucket_top(bucket - 1) + 1 if bucket else 0
        return (max(bottom, self.low) + min(bucket_top(bucket), self.high)) / 2


def _read_buckets(data: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Read a histogram's buckets from a report.

    Raises:
        ValueError: the report has a different number of buckets per doubling.
    """
    if data["buckets_per_doubling"] != PER_OCTAVE:
        raise ValueError(f"a histogram with {data['buckets_per_doubling']} buckets per doubling")
    return tuple((int(bucket), int(count)) for bucket, count in data["buckets"])


def _histogram(buckets: tuple[tuple[int, int], ...], total: int, low: int, high: int) -> Histogram:
    """Create a histogram from its pickled values."""
    return Histogram(buckets=buckets, total=total, low=low, high=high)


class HistogramBuilder:
    """Collects numbers. Only one thread adds numbers, but any thread can call `build`.

    Negative numbers count as 0. `add` only appends to a list, because it is called for each batch.
    The numbers are sorted into buckets later, `_MANY` at a time.
    """

    __slots__ = ("_before_window", "_counts", "_lock", "_numbers", "_window")

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers: list[int] = []
        self._counts: list[int] = []
        """The count of each of `_numbers`. A number is appended before its count."""
        self._window = Histogram()
        self._before_window = Histogram()

    def add(self, value: int, count: int = 1) -> None:
        """Record a number `count` times."""
        new = self._numbers
        new.append(value)
        self._counts.append(count)
        if len(new) >= _MANY:
            self._fold_numbers()

    def add_duration(self, seconds: float) -> None:
        """Record a time that is given in seconds; it is stored in microseconds."""
        self.add(round(seconds * MICROS_PER_S))

    def add_durations(self, seconds: Sequence[tuple[float, int]]) -> None:
        """Record pairs of a time in seconds and a count; times are stored in microseconds."""
        self._numbers += [round(measurement * MICROS_PER_S) for measurement, _ in seconds]
        self._counts += [count for _, count in seconds]
        if len(self._numbers) >= _MANY:
            self._fold_numbers()

    def roll(self) -> Histogram:
        """Return the numbers since the last `roll`.

        `build` still includes them. Only the adding thread may call this.
        """
        self._fold_numbers()
        with self._lock:
            window, self._window = self._window, Histogram()
            self._before_window = Histogram.merge_all((self._before_window, window))
        return window

    def build(self) -> Histogram:
        """Return the histogram of all numbers so far."""
        with self._lock:
            counts = self._counts.copy()
            new = _sorted_histogram(self._numbers[: len(counts)], counts)
            return Histogram.merge_all((self._before_window, self._window, new))

    def _fold_numbers(self) -> None:
        with self._lock:
            new = _sorted_histogram(self._numbers, self._counts)
            self._window = Histogram.merge_all((self._window, new))
            self._numbers = []
            self._counts = []


class Meter:
    """Counters and histograms with the names of the metrics that are built from them."""

    def roll(self) -> dict[str, Histogram]:
        """Return the histograms of the values since the last call, by name."""
        values = vars(self).items()
        return {name: value.roll() for name, value in values if isinstance(value, HistogramBuilder)}


def _sorted_histogram(numbers: list[int], counts: list[int]) -> Histogram:
    """Return the histogram of numbers and their counts, using the buckets of `bucket_of`."""
    if not numbers:
        return Histogram()
    import numpy as np  # only for tasks

    values = np.maximum(np.array(numbers, np.int64), 0)
    exponents = np.frexp(values)[1].astype(np.int64) - 1
    steps = (values >> np.maximum(exponents - _FINE, 0)) % PER_OCTAVE
    octaves = (exponents - _FINE + 1) << _FINE
    buckets = np.where(values < PER_OCTAVE, values, octaves + steps)
    weights = np.array(counts, np.int64)
    distinct, indexes = np.unique(buckets, return_inverse=True)
    bucket_counts = np.zeros(len(distinct), np.int64)
    np.add.at(bucket_counts, indexes, weights)
    return Histogram(
        buckets=tuple(zip(distinct.tolist(), bucket_counts.tolist(), strict=True)),
        total=int((values * weights).sum()),
        low=int(values.min()),
        high=int(values.max()),
    )
