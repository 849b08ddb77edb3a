"""Broker metrics and partition counters as columns, which are merged without creating objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from spark_kafka_sink.common.histogram import Histogram
from spark_kafka_sink.report.metrics.merging import highest, lowest, rules_of
from spark_kafka_sink.report.metrics.producer_metrics import BrokerMetrics
from spark_kafka_sink.report.partition_report import PartitionReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Column = NDArray[np.int64]

BrokerPlanes = tuple[tuple[tuple[int, str], ...], bytes]
"""Node ids and names, and all numbers."""
COUNTERS: Final = tuple(name for name, rule in rules_of(BrokerMetrics).items() if rule is sum)
HISTOGRAMS: Final = tuple(name for name in rules_of(BrokerMetrics) if name not in COUNTERS)
RULES: Final = rules_of(PartitionReport)
"""How each column of partitions is merged."""
_NONE: Final = int(np.iinfo(np.int64).max)
"""Lowest value of an empty histogram."""
_BUCKET_BITS: Final = 16
_BUCKET: Final = (1 << _BUCKET_BITS) - 1
Planes = tuple[tuple[str, ...], tuple[str, ...], bytes]
"""Topics, names of the columns, and all numbers."""
UNKNOWN: Final = int(np.iinfo(np.int64).min)
"""The number that represents None."""
_TOPIC_SHIFT: Final = 32
_FIRST_PARTITION: Final = 1 << 31
"""This is added to a partition number, because the number can be -1."""


def to_planes(rows: Numbers) -> bytes:
    """Return k rows of n numbers as bytes: for each row, eight planes of n bytes.

    The first plane contains the lowest byte of every number. Adjacent similar bytes compress well.
    """
    octets = rows.astype("<i8", copy=False).view(np.uint8).reshape(len(rows), -1, 8)
    return octets.transpose(0, 2, 1).tobytes()


def from_planes(data: bytes, rows: int) -> Numbers:
    """Return the k x n numbers from the result of `to_planes`; `rows` is k."""
    octets = np.frombuffer(data, np.uint8).reshape(rows, 8, -1)
    numbers = np.ascontiguousarray(octets.transpose(0, 2, 1)).view("<i8")[:, :, 0]
    return numbers.astype(np.int64, copy=False)


def _empty(*shape: int) -> Numbers:
    return np.zeros(shape, np.int64)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BrokerColumns:
    """n brokers with c counters and h histograms each; all histograms together have m buckets."""

    brokers: tuple[tuple[int, str], ...] = ()
    """Node ids and names, sorted and without duplicates."""
    counters: Numbers = field(default_factory=lambda: _empty(0, len(COUNTERS)))
    """The counters, shape n x c."""
    summaries: Numbers = field(default_factory=lambda: _empty(3, 0, len(HISTOGRAMS)))
    """Sum, lowest and highest value of each histogram, shape 3 x n x h."""
    cells: Numbers = field(default_factory=lambda: _empty(0))
    """m ascending numbers: the index of the histogram (0 to n x h - 1) in the upper bits, the
    bucket in the lower 16 bits.
    """
    times: Numbers = field(default_factory=lambda: _empty(0))
    """m counts, one for each bucket."""

    @classmethod
    def of(cls, brokers: Sequence[BrokerMetrics]) -> Self:
        """Return the columns of broker metrics; each broker occurs once."""
        if not brokers:
            return cls()
        ordered = sorted(brokers, key=lambda broker: (broker.node_id, broker.name))
        histograms = [getattr(part, name) for part in ordered for name in HISTOGRAMS]
        cells = [
            index << _BUCKET_BITS | bucket
            for index, histogram in enumerate(histograms)
            for bucket, _ in histogram.buckets
        ]
        summaries = np.array(
            [
                (histogram.total, histogram.low if histogram.buckets else _NONE, histogram.high)
                for histogram in histograms
            ],
            np.int64,
        )
        return cls(
            brokers=tuple((part.node_id, part.name) for part in ordered),
            counters=np.array(
                [[getattr(part, name) for name in COUNTERS] for part in ordered], np.int64
            ),
            summaries=summaries.T.reshape(3, len(ordered), len(HISTOGRAMS)),
            cells=np.array(cells, np.int64),
            times=np.array(
                [times for histogram in histograms for _, times in histogram.buckets], np.int64
            ),
        )

    @classmethod
    def merge_all(cls, parts: Iterable[BrokerColumns]) -> Self:
        """Add up columns."""
        with_brokers = [part for part in parts if part.brokers]
        if not with_brokers:
            return cls()
        brokers = tuple(sorted({broker for part in with_brokers for broker in part.brokers}))
        index_of = {broker: index for index, broker in enumerate(brokers)}
        shape = len(brokers), len(HISTOGRAMS)
        counters, totals = _empty(len(brokers), len(COUNTERS)), _empty(*shape)
        lows, highs = np.full(shape, _NONE, np.int64), _empty(*shape)
        cells = []
        for part in with_brokers:
            rows = np.array([index_of[broker] for broker in part.brokers], np.int64)
            counters[rows] += part.counters
            added, low, high = part.summaries
            totals[rows] += added
            lows[rows] = np.minimum(lows[rows], low)
            highs[rows] = np.maximum(highs[rows], high)
            cells.append(_renumbered(part.cells, rows))
        merged, groups = np.unique(np.concatenate(cells), return_inverse=True)
        times = _empty(len(merged))
        np.add.at(times, groups, np.concatenate([part.times for part in with_brokers]))
        summaries = np.stack((totals, lows, highs))
        return cls(
            brokers=brokers, counters=counters, summaries=summaries, cells=merged, times=times
        )

    def to_planes(self) -> BrokerPlanes:
        """Return the columns as bytes that compress well."""
        arrays = self.counters, self.summaries, self.cells, self.times
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
            cells=parts[2],
            times=parts[3],
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
        ends = np.searchsorted(self.cells, np.arange(1, count + 1) << _BUCKET_BITS).tolist()
        pairs = list(zip((self.cells & _BUCKET).tolist(), self.times.tolist(), strict=True))
        return [
            Histogram(
                buckets=tuple(pairs[start:end]),
                total=total,
                low=0 if low == _NONE else low,
                high=high,
            )
            for start, end, (total, low, high) in zip([0, *ends][:count], ends, spans, strict=True)
        ]


def _renumbered(cells: Numbers, rows: Numbers) -> Numbers:
    """Return the cells with each broker's index replaced by its row in `rows`."""
    histograms = cells >> _BUCKET_BITS
    broker, kind = np.divmod(histograms, len(HISTOGRAMS))
    moved: Numbers = (rows[broker] * len(HISTOGRAMS) + kind) << _BUCKET_BITS | cells & _BUCKET
    return moved


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PartitionColumns:
    """n partitions without duplicates, sorted by topic and number."""

    topics: tuple[str, ...] = ()
    """The topics, sorted and without duplicates."""
    keys: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    """n ascending numbers: the index of the topic in the upper half, the partition in the lower
    half.
    """
    values: Mapping[str, Column] = field(default_factory=dict)
    """n numbers for each field of `PartitionReport`, by name; fields with only default values are
    omitted.
    """

    @classmethod
    def of(cls, parts: Sequence[PartitionReport]) -> Self:
        """Return the columns of reports; reports of the same partition are added up."""
        if not parts:
            return cls()
        topics = tuple(sorted({part.topic for part in parts}))
        index = {topic: number << _TOPIC_SHIFT for number, topic in enumerate(topics)}
        keys = [index[part.topic] + part.partition + _FIRST_PARTITION for part in parts]
        values = {}
        for name in RULES:
            default = _default(name)
            numbers = [getattr(part, name) for part in parts]
            column = np.array([UNKNOWN if value is None else value for value in numbers], np.int64)
            if (column != default).any():
                values[name] = column
        return cls._grouped(topics, np.array(keys, np.int64), values)

    @classmethod
    def merge_all(cls, parts: Iterable[PartitionColumns]) -> Self:
        """Add up columns."""
        with_keys = [part for part in parts if len(part.keys)]
        if not with_keys:
            return cls()
        topics = tuple(sorted({topic for part in with_keys for topic in part.topics}))
        index_of = {topic: index for index, topic in enumerate(topics)}
        keys = np.concatenate([part.keys_for(topics, index_of) for part in with_keys])
        names = {name for part in with_keys for name in part.values}
        values = {name: np.concatenate([part.column(name) for part in with_keys]) for name in names}
        return cls._grouped(topics, keys, values)

    def to_reports(self) -> tuple[PartitionReport, ...]:
        """Return one object per partition."""
        names = tuple(self.values)
        rows = np.zeros((len(self.keys), len(names)), np.int64)
        for index, name in enumerate(names):
            rows[:, index] = self.values[name]
        return tuple(
            PartitionReport(topic=topic, partition=partition, **_known(names, row))
            for topic, partition, row in zip(
                self._topics(), self._partitions(), rows.tolist(), strict=True
            )
        )

    def select(self, rows: Column) -> Self:
        """Return the partitions in these rows, which are in ascending order."""
        values = {name: array[rows] for name, array in self.values.items()}
        return replace(self, keys=self.keys[rows], values=values)

    def to_planes(self) -> Planes:
        """Return the columns as bytes that compress well."""
        rows = np.stack((self.keys, *self.values.values()))
        return self.topics, tuple(self.values), to_planes(rows)

    @classmethod
    def from_planes(cls, planes: Planes) -> Self:
        """Return the columns from the result of `to_planes`."""
        topics, names, data = planes
        keys, *values = from_planes(data, 1 + len(names))
        return cls(topics=topics, keys=keys, values=dict(zip(names, values, strict=True)))

    def keys_for(self, topics: tuple[str, ...], index_of: Mapping[str, int]) -> Column:
        """Return the keys with topic indices into `topics`, a sorted superset of `self.topics`."""
        if topics == self.topics:
            return self.keys
        moved = np.array([index_of[topic] for topic in self.topics], np.int64)
        numbers = self.keys & ((1 << _TOPIC_SHIFT) - 1)
        return _numbers((moved[self.keys >> _TOPIC_SHIFT] << _TOPIC_SHIFT) | numbers)

    def column(self, name: str) -> Column:
        """Return the n numbers of a field."""
        column = self.values.get(name)
        return np.full(len(self.keys), _default(name), np.int64) if column is None else column

    @classmethod
    def _grouped(cls, topics: tuple[str, ...], keys: Column, values: Mapping[str, Column]) -> Self:
        """Return sorted columns in which the counters of equal keys are added up."""
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        return cls(
            topics=topics,
            keys=keys[starts],
            values={
                name: _aggregated(name, array[order], starts) for name, array in values.items()
            },
        )

    def _topics(self) -> list[str]:
        return [self.topics[index] for index in (self.keys >> _TOPIC_SHIFT).tolist()]

    def _partitions(self) -> list[int]:
        numbers = (self.keys & ((1 << _TOPIC_SHIFT) - 1)) - _FIRST_PARTITION
        return [int(number) for number in numbers.tolist()]


def _default(name: str) -> int:
    return 0 if RULES[name] is sum else UNKNOWN


def _aggregated(name: str, column: Column, starts: Column) -> Column:
    """Return one number per group of rows; `starts` contains the first row of each group."""
    rule = RULES[name]
    if rule is sum:
        return _numbers(np.add.reduceat(column, starts))
    if rule is highest:
        return _numbers(np.maximum.reduceat(column, starts))
    if rule is lowest:
        limit = np.iinfo(np.int64).max
        known = column != UNKNOWN
        least = np.minimum.reduceat(np.where(known, column, limit), starts)
        return np.where(np.logical_or.reduceat(known, starts), least, UNKNOWN)
    least = np.minimum.reduceat(column, starts)
    return np.where(least == np.maximum.reduceat(column, starts), least, UNKNOWN)


def _numbers(numbers: Any) -> Column:
    return np.asarray(numbers, np.int64)


def _known(names: Sequence[str], row: Sequence[int]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, row, strict=True) if value != UNKNOWN}
