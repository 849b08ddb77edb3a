"""Broker metrics as columns, which are merged without creating objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from spark_kafka_sink.common.histogram import Histogram
from spark_kafka_sink.report.columnar.packed_numbers import from_planes, to_planes, zeros
from spark_kafka_sink.report.metrics.merging import rules_of
from spark_kafka_sink.report.metrics.producer_metrics import BrokerMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


BrokerPlanes = tuple[tuple[tuple[int, str], ...], bytes]
"""Node ids and names, and all numbers."""
COUNTERS = tuple(name for name, rule in rules_of(BrokerMetrics).items() if rule is sum)
HISTOGRAMS = tuple(name for name in rules_of(BrokerMetrics) if name not in COUNTERS)
_EMPTY_LOW = int(np.iinfo(np.int64).max)
"""Lowest value of an empty histogram."""
_BUCKET_BITS = 16
_BUCKET_MASK = (1 << _BUCKET_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BrokerColumns:
    """n brokers with c counters and h histograms each; all histograms together have m buckets."""

    brokers: tuple[tuple[int, str], ...] = ()
    """Node ids and names, sorted and without duplicates."""
    counters: Numbers = field(default_factory=lambda: zeros(0, len(COUNTERS)))
    """The counters, shape n x c."""
    summaries: Numbers = field(default_factory=lambda: zeros(3, 0, len(HISTOGRAMS)))
    """Sum, lowest and highest value of each histogram, shape 3 x n x h."""
    bucket_keys: Numbers = field(default_factory=lambda: zeros(0))
    """m ascending numbers: the index of the histogram (0 to n x h - 1) in the upper bits, the
    bucket in the lower 16 bits.
    """
    counts: Numbers = field(default_factory=lambda: zeros(0))
    """m counts, one for each bucket."""

    @classmethod
    def of(cls, brokers: Sequence[BrokerMetrics]) -> Self:
        """Return the columns of broker metrics; each broker occurs once."""
        if not brokers:
            return cls()
        ordered = sorted(brokers, key=lambda broker: (broker.node_id, broker.name))
        histograms = [getattr(broker, name) for broker in ordered for name in HISTOGRAMS]
        bucket_keys = [
            index << _BUCKET_BITS | bucket
            for index, histogram in enumerate(histograms)
            for bucket, _ in histogram.buckets
        ]
        summaries = np.array(
            [
                (
                    histogram.total,
                    histogram.low if histogram.buckets else _EMPTY_LOW,
                    histogram.high,
                )
                for histogram in histograms
            ],
            np.int64,
        )
        return cls(
            brokers=tuple((broker.node_id, broker.name) for broker in ordered),
            counters=np.array(
                [[getattr(broker, name) for name in COUNTERS] for broker in ordered], np.int64
            ),
            summaries=summaries.T.reshape(3, len(ordered), len(HISTOGRAMS)),
            bucket_keys=np.array(bucket_keys, np.int64),
            counts=np.array(
                [count for histogram in histograms for _, count in histogram.buckets], np.int64
            ),
        )

    @classmethod
    def merge_all(cls, all_columns: Iterable[BrokerColumns]) -> Self:
        """Add up columns."""
        with_brokers = [columns for columns in all_columns if columns.brokers]
        if not with_brokers:
            return cls()
        brokers = tuple(sorted({broker for columns in with_brokers for broker in columns.brokers}))
        index_of = {broker: index for index, broker in enumerate(brokers)}
        shape = len(brokers), len(HISTOGRAMS)
        counters, totals = zeros(len(brokers), len(COUNTERS)), zeros(*shape)
        lows, highs = np.full(shape, _EMPTY_LOW, np.int64), zeros(*shape)
        bucket_keys = []
        for columns in with_brokers:
            rows = np.array([index_of[broker] for broker in columns.brokers], np.int64)
            counters[rows] += columns.counters
            added, low, high = columns.summaries
            totals[rows] += added
            lows[rows] = np.minimum(lows[rows], low)
            highs[rows] = np.maximum(highs[rows], high)
            bucket_keys.append(_renumber_brokers(columns.bucket_keys, rows))
        merged, groups = np.unique(np.concatenate(bucket_keys), return_inverse=True)
        counts = zeros(len(merged))
        np.add.at(counts, groups, np.concatenate([columns.counts for columns in with_brokers]))
        summaries = np.stack((totals, lows, highs))
        return cls(
            brokers=brokers,
            counters=counters,
            summaries=summaries,
            bucket_keys=merged,
            counts=counts,
        )

    def to_planes(self) -> BrokerPlanes:
        """Return the columns as bytes that compress well."""
        arrays = self.counters, self.summaries, self.bucket_keys, self.counts
        numbers = np.concatenate([array.ravel() for array in arrays])
        return self.brokers, to_planes(numbers[np.newaxis])

    @classmethod
    def from_planes(cls, planes: BrokerPlanes) -> Self:
        """Return the columns from the result of `to_planes`."""
        brokers, data = planes
        (numbers,) = from_planes(data, 1)
        count, end = len(brokers), len(brokers) * (len(COUNTERS) + 3 * len(HISTOGRAMS))
        buckets = (len(numbers) - end) // 2
        parts = np.split(numbers, [count * len(COUNTERS), end, end + buckets])
        return cls(
            brokers=brokers,
            counters=parts[0].reshape(count, len(COUNTERS)),
            summaries=parts[1].reshape(3, count, len(HISTOGRAMS)),
            bucket_keys=parts[2],
            counts=parts[3],
        )

    def to_metrics(self) -> tuple[BrokerMetrics, ...]:
        """Return one object per broker."""
        histograms: Iterator[Any] = iter(self._histograms())
        return tuple(
            BrokerMetrics(
                node_id=node_id,
                name=name,
                **dict(zip(COUNTERS, counters, strict=True)),
                **{kind: next(histograms) for kind in HISTOGRAMS},
            )
            for (node_id, name), counters in zip(self.brokers, self.counters.tolist(), strict=True)
        )

    def _histograms(self) -> list[Histogram]:
        """Return all n x h histograms."""
        spans = self.summaries.reshape(3, -1).T.tolist()
        count = len(spans)
        ends = np.searchsorted(self.bucket_keys, np.arange(1, count + 1) << _BUCKET_BITS).tolist()
        pairs = list(
            zip((self.bucket_keys & _BUCKET_MASK).tolist(), self.counts.tolist(), strict=True)
        )
        return [
            Histogram(
                buckets=tuple(pairs[start:end]),
                total=total,
                low=0 if low == _EMPTY_LOW else low,
                high=high,
            )
            for start, end, (total, low, high) in zip([0, *ends][:count], ends, spans, strict=True)
        ]


def _renumber_brokers(bucket_keys: Numbers, rows: Numbers) -> Numbers:
    """Return the bucket keys with each broker's index replaced by its row in `rows`."""
    histograms = bucket_keys >> _BUCKET_BITS
    broker, kind = np.divmod(histograms, len(HISTOGRAMS))
    moved: Numbers = (
        rows[broker] * len(HISTOGRAMS) + kind
    ) << _BUCKET_BITS | bucket_keys & _BUCKET_MASK
    return moved
