"""Which partition each row goes to: explicit, by key hash as in Java, or sticky for null keys.

Source: ``BuiltInPartitioner`` (KIP-480, KIP-794) and ``RoundRobinPartitioner``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.base.config import Partitioner as Kind
from spark_kafka_sink.base.errors import ColumnError
from spark_kafka_sink.records.batch import HEADER_SIZE
from spark_kafka_sink.records.murmur2 import murmur2

if TYPE_CHECKING:
    from random import Random

    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_kafka_sink.base.config import ProducerConfig
    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.records.columns import Columns

_POSITIVE = np.uint32(0x7FFFFFFF)
_INT16_TARGETS = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One chunk of n rows on its way to the producer.

    `topic_of` numbers each row's topic within `topics` (None: all rows go to topics[0]);
    `partition` is int32 with null where the partitioner is to decide (None: everywhere).
    `first_row` is the number that errors give to the first row.
    """

    columns: Columns
    topics: tuple[str, ...]
    topic_of: NDArray[np.int32] | None = None
    partition: pa.Int32Array | None = None
    first_row: int = 0

    def __len__(self) -> int:
        return len(self.columns)

    def slice(self, start: int, stop: int) -> Rows:
        """Rows start..stop as views."""
        return Rows(
            columns=self.columns.slice(start, stop),
            topics=self.topics,
            topic_of=None if self.topic_of is None else self.topic_of[start:stop],
            partition=None if self.partition is None else self.partition[start:stop],
            first_row=self.first_row + start,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where each row goes: a target number per row, shape (n,), int16 while that suffices.

    Target t is partition t - bases[i] of topics[i], with the greatest i such that bases[i] <= t.
    """

    targets: NDArray[np.integer]
    topics: tuple[TopicInfo, ...]
    bases: NDArray[np.int64]

    def target(self, number: int) -> tuple[TopicInfo, int]:
        """Topic and partition of a target number."""
        index = int(np.searchsorted(self.bases, number, side="right")) - 1
        return self.topics[index], number - int(self.bases[index])


@dataclass(slots=True)
class _Sticky:
    partition: int
    room: int


class Partitioner:
    """Assigns partitions for one producer session; used by the writer thread alone."""

    def __init__(self, config: ProducerConfig, random: Random) -> None:
        self._kind = config.partitioner
        self._ignore_keys = config.partitioner_ignore_keys
        self._batch_room = config.batch_size - HEADER_SIZE
        self._random = random
        self._sticky: dict[str, _Sticky] = {}
        self._next_round: dict[str, int] = {}

    def assign(self, rows: Rows, topics: tuple[TopicInfo, ...], sizes: NDArray[np.int64]) -> Route:
        """Choose a target for each row.

        Args:
            rows: n rows whose `topics` match `topics` by position.
            topics: what the cluster says of them; each has at least one partition.
            sizes: upper bound of each record in bytes, shape (n,).

        Raises:
            ColumnError: an explicit partition that the topic does not have.
        """
        counts = np.array([topic.partition_count for topic in topics], np.int32)
        count_of = counts[rows.topic_of] if rows.topic_of is not None else counts[0]
        partitions = np.empty(len(rows), np.int32)
        open_rows = self._explicit(rows, topics, count_of, partitions)
        open_rows = self._keyed(rows, count_of, partitions, open_rows)
        for topic, members in _by_topic(rows, topics, open_rows):
            partitions[members] = self._unkeyed(topic, sizes[members])
        return _route(rows, topics, counts, partitions)

    def _explicit(
        self,
        rows: Rows,
        topics: tuple[TopicInfo, ...],
        count_of: NDArray[np.int32],
        partitions: NDArray[np.int32],
    ) -> NDArray[np.bool_] | None:
        """Fill in the rows with a partition column; the rest is returned (None: all rows)."""
        column = rows.partition
        if column is None or column.null_count == len(column):
            return None
        asked = np.asarray(column.fill_null(0))
        wrong = (asked < 0) | (asked >= count_of)
        if wrong.any():
            _raise_out_of_range(rows, topics, int(wrong.argmax()), asked)
        partitions[:] = asked
        return np.asarray(column.is_null())

    def _keyed(
        self,
        rows: Rows,
        count_of: NDArray[np.int32],
        partitions: NDArray[np.int32],
        open_rows: NDArray[np.bool_] | None,
    ) -> NDArray[np.bool_] | None:
        """Fill in the rows that have a key; the rest is returned (None: all rows)."""
        keys = rows.columns.key
        if keys is None or self._ignore_keys or self._kind is Kind.ROUND_ROBIN:
            return open_rows
        if open_rows is not None and not open_rows.any():
            return open_rows
        hashed = ((murmur2(keys) & _POSITIVE) % count_of.astype(np.uint32)).astype(np.int32)
        if open_rows is None:
            partitions[:] = hashed
        else:
            partitions[open_rows] = hashed[open_rows]
        if not keys.null_count:
            return np.zeros(len(rows), np.bool_)
        without_key = np.asarray(keys.is_null())
        return without_key if open_rows is None else without_key & open_rows

    def _unkeyed(self, topic: TopicInfo, sizes: NDArray[np.int64]) -> NDArray[np.int32]:
        if self._kind is Kind.ROUND_ROBIN:
            first = self._next_round.get(topic.name, 0)
            self._next_round[topic.name] = (first + len(sizes)) % topic.partition_count
            turns = np.arange(first, first + len(sizes), dtype=np.int64)
            return (turns % topic.partition_count).astype(np.int32)
        return self._stick(topic, sizes)

    def _stick(self, topic: TopicInfo, sizes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Stay on one partition for a batch's worth of bytes, then move on (KIP-794)."""
        state = self._sticky.get(topic.name)
        if state is None or state.partition >= topic.partition_count:
            state = self._sticky[topic.name] = self._pick(topic)
        ends = np.cumsum(sizes)
        chosen = np.empty(len(sizes), np.int32)
        row, spent = 0, 0
        while row < len(sizes):
            stop = int(np.searchsorted(ends, spent + state.room, side="right"))
            if stop == row and state.room == self._batch_room:
                stop = row + 1  # larger than a batch: it gets one of its own
            chosen[row:stop] = state.partition
            if stop > row:
                state.room -= int(ends[stop - 1]) - spent
                spent = int(ends[stop - 1])
            row = stop
            if row < len(sizes) or state.room <= 0:
                state = self._sticky[topic.name] = self._pick(topic)
        return chosen

    def _pick(self, topic: TopicInfo) -> _Sticky:
        led = topic.led_partitions
        choice = self._random.choice(led) if led else self._random.randrange(topic.partition_count)
        return _Sticky(choice, self._batch_room)


def _by_topic(
    rows: Rows, topics: tuple[TopicInfo, ...], mask: NDArray[np.bool_] | None
) -> list[tuple[TopicInfo, slice | NDArray[np.intp]]]:
    """The rows that still need a partition, grouped by topic and in their order."""
    if rows.topic_of is None:
        if mask is None:
            return [(topics[0], slice(None))]
        members = np.flatnonzero(mask)
        return [(topics[0], members)] if len(members) else []
    open_rows = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
    order = np.argsort(rows.topic_of[open_rows], kind="stable")
    grouped = open_rows[order]
    numbers = rows.topic_of[grouped]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    groups = np.split(grouped, starts[1:])
    return [(topics[int(rows.topic_of[group[0]])], group) for group in groups if len(group)]


def _route(
    rows: Rows,
    topics: tuple[TopicInfo, ...],
    counts: NDArray[np.int32],
    partitions: NDArray[np.int32],
) -> Route:
    bases = np.zeros(len(topics), np.int64)
    np.cumsum(counts[:-1], out=bases[1:])
    targets = partitions if rows.topic_of is None else partitions + bases[rows.topic_of]
    # numpy sorts 16-bit integers by radix, some fifteen times faster than wider ones.
    small = int(counts.sum()) <= _INT16_TARGETS
    return Route(
        targets=targets.astype(np.int16 if small else np.int32), topics=topics, bases=bases
    )


def _raise_out_of_range(
    rows: Rows, topics: tuple[TopicInfo, ...], row: int, asked: NDArray[np.int32]
) -> None:
    topic = topics[0 if rows.topic_of is None else int(rows.topic_of[row])]
    raise ColumnError(
        f"row {rows.first_row + row} asks for a partition that the topic does not have: "
        f"it has partitions 0 to {topic.partition_count - 1}",
        topic=topic.name,
        partition=int(asked[row]),
        hint="correct the `partition` column, or leave it null to let the partitioner choose",
    )
