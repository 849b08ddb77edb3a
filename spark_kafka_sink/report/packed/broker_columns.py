"""The metrics of many brokers as columns, which add up without an object for each histogram.

`ProducerMetrics.merge_all` is the reference of what adding up means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from spark_kafka_sink.metrics.histogram import Histogram
from spark_kafka_sink.metrics.producer_metrics import BrokerMetrics
from spark_kafka_sink.report.packed.planes import from_planes, to_planes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

BrokerPlanes = tuple[tuple[tuple[int, str], ...], bytes]
"""Node ids and names, and all numbers."""
COUNTERS: Final = (
    "tx",
    "tx_bytes",
    "rx",
    "rx_bytes",
    "tx_errors",
    "timeouts",
    "connects",
    "disconnects",
)
HISTOGRAMS: Final = ("int_latency", "outbuf_latency", "rtt", "throttle")
_NONE: Final = int(np.iinfo(np.int64).max)
"""The lowest number of an empty histogram."""
_BUCKET_BITS: Final = 16
_BUCKET: Final = (1 << _BUCKET_BITS) - 1


def _empty(*shape: int) -> Numbers:
    return np.zeros(shape, np.int64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BrokerColumns:
    """n brokers with c counters and h histograms each, which have m buckets all together."""

    brokers: tuple[tuple[int, str], ...] = ()
    """Node ids and names, sorted, each once."""
    counters: Numbers = field(default_factory=lambda: _empty(0, len(COUNTERS)))
    """n x c."""
    totals: Numbers = field(default_factory=lambda: _empty(0, len(HISTOGRAMS)))
    """n x h, as are `lows` and `highs`."""
    lows: Numbers = field(default_factory=lambda: _empty(0, len(HISTOGRAMS)))
    highs: Numbers = field(default_factory=lambda: _empty(0, len(HISTOGRAMS)))
    cells: Numbers = field(default_factory=lambda: _empty(0))
    """m rising numbers: a histogram of all n x h in the upper bits, the bucket in the lower 16."""
    times: Numbers = field(default_factory=lambda: _empty(0))
    """m, how often each was seen."""

    @classmethod
    def of(cls, brokers: Sequence[BrokerMetrics]) -> Self:
        """The columns of brokers' metrics, each broker once."""
        if not brokers:
            return cls()
        ordered = sorted(brokers, key=lambda each: (each.node_id, each.name))
        found = [getattr(each, name) for each in ordered for name in HISTOGRAMS]
        cells = [
            index << _BUCKET_BITS | bucket
            for index, histogram in enumerate(found)
            for bucket, _ in histogram.buckets
        ]
        shape = len(ordered), len(HISTOGRAMS)
        lows = [histogram.low if histogram.buckets else _NONE for histogram in found]
        return cls(
            brokers=tuple((each.node_id, each.name) for each in ordered),
            counters=np.array(
                [[getattr(each, name) for name in COUNTERS] for each in ordered], np.int64
            ),
            totals=np.array([each.total for each in found], np.int64).reshape(shape),
            lows=np.array(lows, np.int64).reshape(shape),
            highs=np.array([each.high for each in found], np.int64).reshape(shape),
            cells=np.array(cells, np.int64),
            times=np.array([times for each in found for _, times in each.buckets], np.int64),
        )

    @classmethod
    def merge_all(cls, parts: Iterable[BrokerColumns]) -> Self:
        """All together."""
        found = [part for part in parts if part.brokers]
        if not found:
            return cls()
        brokers = tuple(sorted({each for part in found for each in part.brokers}))
        places = {each: index for index, each in enumerate(brokers)}
        shape = len(brokers), len(HISTOGRAMS)
        counters, totals = _empty(len(brokers), len(COUNTERS)), _empty(*shape)
        lows, highs = np.full(shape, _NONE, np.int64), _empty(*shape)
        cells = []
        for part in found:
            rows = np.array([places[each] for each in part.brokers], np.int64)
            counters[rows] += part.counters
            totals[rows] += part.totals
            lows[rows] = np.minimum(lows[rows], part.lows)
            highs[rows] = np.maximum(highs[rows], part.highs)
            cells.append(_moved(part.cells, rows))
        merged, groups = np.unique(np.concatenate(cells), return_inverse=True)
        times = _empty(len(merged))
        np.add.at(times, groups, np.concatenate([part.times for part in found]))
        return cls(
            brokers=brokers,
            counters=counters,
            totals=totals,
            lows=lows,
            highs=highs,
            cells=merged,
            times=times,
        )

    def to_planes(self) -> BrokerPlanes:
        """As bytes that compress well."""
        arrays = self.counters, self.totals, self.lows, self.highs, self.cells, self.times
        numbers = np.concatenate([each.ravel() for each in arrays])
        return self.brokers, to_planes(numbers[np.newaxis])

    @classmethod
    def from_planes(cls, planes: BrokerPlanes) -> Self:
        """Back from what `to_planes` made."""
        brokers, data = planes
        (numbers,) = from_planes(data, 1)
        counters, histograms = len(brokers) * len(COUNTERS), len(brokers) * len(HISTOGRAMS)
        ends = counters + histograms * np.arange(4)
        buckets = (len(numbers) - int(ends[-1])) // 2
        parts = np.split(numbers, [*ends.tolist(), int(ends[-1]) + buckets])
        totals, lows, highs = (each.reshape(-1, len(HISTOGRAMS)) for each in parts[1:4])
        return cls(
            brokers=brokers,
            counters=parts[0].reshape(-1, len(COUNTERS)),
            totals=totals,
            lows=lows,
            highs=highs,
            cells=parts[4],
            times=parts[5],
        )

    def to_metrics(self) -> tuple[BrokerMetrics, ...]:
        """One object for each broker."""
        found = iter(self._histograms())
        return tuple(
            BrokerMetrics(
                node_id=node_id,
                name=name,
                **dict(zip(COUNTERS, counters, strict=True)),
                int_latency=next(found),
                outbuf_latency=next(found),
                rtt=next(found),
                throttle=next(found),
            )
            for (node_id, name), counters in zip(self.brokers, self.counters.tolist(), strict=True)
        )

    def _histograms(self) -> list[Histogram]:
        """All n x h."""
        count = self.totals.size
        ends = np.searchsorted(self.cells, np.arange(1, count + 1) << _BUCKET_BITS).tolist()
        pairs = list(zip((self.cells & _BUCKET).tolist(), self.times.tolist(), strict=True))
        spans = zip(
            self.totals.ravel().tolist(),
            self.lows.ravel().tolist(),
            self.highs.ravel().tolist(),
            strict=True,
        )
        return [
            Histogram(
                buckets=tuple(pairs[start:end]),
                total=total,
                low=0 if low == _NONE else low,
                high=high,
            )
            for start, end, (total, low, high) in zip([0, *ends][:count], ends, spans, strict=True)
        ]


def _moved(cells: Numbers, rows: Numbers) -> Numbers:
    """The cells of brokers that are in these rows now."""
    histograms = cells >> _BUCKET_BITS
    broker, kind = np.divmod(histograms, len(HISTOGRAMS))
    moved: Numbers = (rows[broker] * len(HISTOGRAMS) + kind) << _BUCKET_BITS | cells & _BUCKET
    return moved
