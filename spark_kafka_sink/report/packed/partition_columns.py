"""The counters of many partitions as columns, which add up without an object for each.

`PartitionReport.combine` is the reference of what adding up means.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from spark_kafka_sink.report.packed.planes import from_planes, to_planes
from spark_kafka_sink.report.partition_report import PartitionReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

Planes = tuple[tuple[str, ...], tuple[str, ...], bytes]
"""Topics, names of the columns, and all numbers."""
UNKNOWN: Final = int(np.iinfo(np.int64).min)
"""Stands for None."""
_TOPIC_SHIFT: Final = 32
_FIRST_PARTITION: Final = 1 << 31
"""Added to the number of a partition, which may be -1."""

SUMS: Final = (
    "batches",
    "bytes_uncompressed",
    "bytes_sent",
    "persisted",
    "possibly_persisted",
    "not_persisted",
    "sent",
    "would_be_written",
)
LOWEST: Final = ("first_offset", "first_append_time")
HIGHEST: Final = ("last_offset", "next_ack_seq", "next_err_seq", "last_append_time")
SAME: Final = ("leader",)
"""None where not all are the same."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PartitionColumns:
    """n partitions, each once, by topic and number."""

    topics: tuple[str, ...] = ()
    """Sorted, each once."""
    keys: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    """n rising numbers: the topic's index in the upper half, the partition's number below."""
    values: Mapping[str, Column] = field(default_factory=dict)
    """Names of `PartitionReport`'s fields, each with n numbers; what only has the default is left
    out."""

    @classmethod
    def of(cls, parts: Sequence[PartitionReport]) -> Self:
        """The columns of reports; those of one partition are added up."""
        if not parts:
            return cls()
        topics = tuple(sorted({part.topic for part in parts}))
        index = {topic: number << _TOPIC_SHIFT for number, topic in enumerate(topics)}
        keys = [index[part.topic] + part.partition + _FIRST_PARTITION for part in parts]
        values = {}
        for name in (*SUMS, *LOWEST, *HIGHEST, *SAME):
            default = _default(name)
            found = [getattr(part, name) for part in parts]
            column = np.array([UNKNOWN if each is None else each for each in found], np.int64)
            if (column != default).any():
                values[name] = column
        return cls._grouped(topics, np.array(keys, np.int64), values)

    @classmethod
    def merge_all(cls, parts: Iterable[PartitionColumns]) -> Self:
        """All together."""
        found = [part for part in parts if len(part.keys)]
        if not found:
            return cls()
        topics = tuple(sorted({topic for part in found for topic in part.topics}))
        places = {topic: place for place, topic in enumerate(topics)}
        keys = np.concatenate([part.keys_within(topics, places) for part in found])
        names = {name for part in found for name in part.values}
        values = {name: np.concatenate([part.column(name) for part in found]) for name in names}
        return cls._grouped(topics, keys, values)

    def to_reports(self) -> tuple[PartitionReport, ...]:
        """One object for each partition."""
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

    def taken(self, rows: Column) -> Self:
        """Some of the partitions, by their rows in rising order."""
        values = {name: each[rows] for name, each in self.values.items()}
        return replace(self, keys=self.keys[rows], values=values)

    def to_planes(self) -> Planes:
        """As bytes that compress well."""
        rows = np.stack((self.keys, *self.values.values()))
        return self.topics, tuple(self.values), to_planes(rows)

    @classmethod
    def from_planes(cls, planes: Planes) -> Self:
        """Back from what `to_planes` made."""
        topics, names, data = planes
        keys, *values = from_planes(data, 1 + len(names))
        return cls(topics=topics, keys=keys, values=dict(zip(names, values, strict=True)))

    def keys_within(self, topics: tuple[str, ...], places: Mapping[str, int]) -> Column:
        """The keys with the indices of sorted topics, of which these may be some."""
        if topics == self.topics:
            return self.keys
        moved = np.array([places[topic] for topic in self.topics], np.int64)
        numbers = self.keys & ((1 << _TOPIC_SHIFT) - 1)
        return _numbers((moved[self.keys >> _TOPIC_SHIFT] << _TOPIC_SHIFT) | numbers)

    def column(self, name: str) -> Column:
        """The n numbers of a field."""
        column = self.values.get(name)
        return np.full(len(self.keys), _default(name), np.int64) if column is None else column

    @classmethod
    def _grouped(cls, topics: tuple[str, ...], keys: Column, values: Mapping[str, Column]) -> Self:
        """Sorted, with the counters of equal keys added up."""
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        return cls(
            topics=topics,
            keys=keys[starts],
            values={name: _reduced(name, each[order], starts) for name, each in values.items()},
        )

    def _topics(self) -> list[str]:
        return [self.topics[index] for index in (self.keys >> _TOPIC_SHIFT).tolist()]

    def _partitions(self) -> list[int]:
        numbers = (self.keys & ((1 << _TOPIC_SHIFT) - 1)) - _FIRST_PARTITION
        return [int(each) for each in numbers.tolist()]


def _default(name: str) -> int:
    return 0 if name in SUMS else UNKNOWN


def _reduced(name: str, column: Column, starts: Column) -> Column:
    """One number for each group of rows, which begin at `starts`."""
    if name in SUMS:
        return _numbers(np.add.reduceat(column, starts))
    if name in HIGHEST:
        return _numbers(np.maximum.reduceat(column, starts))
    if name in LOWEST:
        highest = np.iinfo(np.int64).max
        lowest = np.minimum.reduceat(np.where(column == UNKNOWN, highest, column), starts)
        return np.where(lowest == highest, UNKNOWN, lowest)
    lowest = np.minimum.reduceat(column, starts)
    return np.where(lowest == np.maximum.reduceat(column, starts), lowest, UNKNOWN)


def _numbers(found: Any) -> Column:
    return np.asarray(found, np.int64)


def _known(names: Sequence[str], row: Sequence[int]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, row, strict=True) if value != UNKNOWN}
