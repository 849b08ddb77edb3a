"""Partition counters as columns, which are merged without creating objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from spark_kafka_sink.report.columnar.packed_numbers import UNKNOWN, from_planes, to_planes
from spark_kafka_sink.report.metrics.merging import highest, lowest, rules_of
from spark_kafka_sink.report.partition_report import PartitionReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

RULES = rules_of(PartitionReport)
"""How each column of partitions is merged."""
Planes = tuple[tuple[str, ...], tuple[str, ...], bytes]
"""Topics, names of the columns, and all numbers."""
_TOPIC_SHIFT = 32
_FIRST_PARTITION = 1 << 31
"""This is added to a partition number, because the number can be -1."""


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
    def of(cls, reports: Sequence[PartitionReport]) -> Self:
        """Return the columns of reports; reports of the same partition are added up."""
        if not reports:
            return cls()
        topics = tuple(sorted({report.topic for report in reports}))
        index = {topic: number << _TOPIC_SHIFT for number, topic in enumerate(topics)}
        keys = [index[report.topic] + report.partition + _FIRST_PARTITION for report in reports]
        values = {}
        for name in RULES:
            default = _default(name)
            numbers = [getattr(report, name) for report in reports]
            column = np.array([UNKNOWN if value is None else value for value in numbers], np.int64)
            if (column != default).any():
                values[name] = column
        return cls._grouped(topics, np.array(keys, np.int64), values)

    @classmethod
    def merge_all(cls, all_columns: Iterable[PartitionColumns]) -> Self:
        """Add up columns."""
        with_keys = [columns for columns in all_columns if len(columns.keys)]
        if not with_keys:
            return cls()
        topics = tuple(sorted({topic for columns in with_keys for topic in columns.topics}))
        index_of = {topic: index for index, topic in enumerate(topics)}
        keys = np.concatenate([columns.keys_for(topics, index_of) for columns in with_keys])
        names = {name for columns in with_keys for name in columns.values}
        values = {
            name: np.concatenate([columns.column(name) for columns in with_keys]) for name in names
        }
        return cls._grouped(topics, keys, values)

    def to_reports(self) -> tuple[PartitionReport, ...]:
        """Return one object per partition."""
        names = tuple(self.values)
        rows = np.zeros((len(self.keys), len(names)), np.int64)
        for index, name in enumerate(names):
            rows[:, index] = self.values[name]
        return tuple(
            PartitionReport(topic=topic, partition=partition, **_without_unknown(names, row))
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
        return _int64_column((moved[self.keys >> _TOPIC_SHIFT] << _TOPIC_SHIFT) | numbers)

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
            values={name: _aggregate(name, array[order], starts) for name, array in values.items()},
        )

    def _topics(self) -> list[str]:
        return [self.topics[index] for index in (self.keys >> _TOPIC_SHIFT).tolist()]

    def _partitions(self) -> list[int]:
        numbers = (self.keys & ((1 << _TOPIC_SHIFT) - 1)) - _FIRST_PARTITION
        return [int(number) for number in numbers.tolist()]


def _default(name: str) -> int:
    return 0 if RULES[name] is sum else UNKNOWN


def _aggregate(name: str, column: Column, starts: Column) -> Column:
    """Return one number per group of rows; `starts` contains the first row of each group."""
    rule = RULES[name]
    if rule is sum:
        return _int64_column(np.add.reduceat(column, starts))
    if rule is highest:
        return _int64_column(np.maximum.reduceat(column, starts))
    if rule is lowest:
        limit = np.iinfo(np.int64).max
        known = column != UNKNOWN
        smallest = np.minimum.reduceat(np.where(known, column, limit), starts)
        return np.where(np.logical_or.reduceat(known, starts), smallest, UNKNOWN)
    smallest = np.minimum.reduceat(column, starts)
    return np.where(smallest == np.maximum.reduceat(column, starts), smallest, UNKNOWN)


def _int64_column(numbers: Any) -> Column:
    return np.asarray(numbers, np.int64)


def _without_unknown(names: Sequence[str], row: Sequence[int]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, row, strict=True) if value != UNKNOWN}
