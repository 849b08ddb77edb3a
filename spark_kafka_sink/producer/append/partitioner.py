"""Assign a partition to each row: explicit, by key hash, round robin, or by a user function.

Rows without a key (see `Keyless`) get sticky partitions, unless the partitioner is
RoundRobinPartitioner, random or a user function: each batch of such rows gets one partition, drawn
at random and weighted towards short queues. This also applies to the partitioners
consistent_random, murmur2_random and fnv1a_random, as it does in librdkafka by default.

Normally, a batch of rows without a key gets its partition when it can be sent (see `Drainer`).
`StickyPartitioner`, on the writer thread, assigns the partition earlier in two cases:

- Some rows of the same topic have a key or an explicit partition and are not yet sent. To keep the
  order of the records within a partition, all rows must be queued in order.
- partitioner.adaptive.partitioning.enable is false, so the load must not affect the choice.

In these cases, rows without a key are added to the open batch of a randomly drawn partition until
it is full, then to the batch of the next drawn partition.

The key hashes (murmur2, CRC-32, FNV-1a) are in `kafka/records/key_hashes`.

Source: ``BuiltInPartitioner`` (KIP-480, KIP-794), ``RoundRobinPartitioner``; librdkafka's
``rd_kafka_msg_partitioner_*``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum, auto
from heapq import heapify, heappop
from importlib import import_module
from math import log
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.enums import Partitioner as Kind
from spark_kafka_sink.kafka.client.cluster_snapshot import NO_LEADER, UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.records.columns import lengths_of
from spark_kafka_sink.kafka.records.key_hashes import crc32, fnv1a, positive_murmur2
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.producer.row_error import out_of_range

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from random import Random

    from numpy.typing import NDArray

    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.kafka.client.cluster_snapshot import TopicInfo
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.rows import Rows

    Topics = tuple[TopicInfo, ...]
    Mask = NDArray[np.bool_]
    """A boolean for each of n rows."""
    Partitions = NDArray[np.int32]
    """A partition for each of n rows."""
    Hash = Callable[[pa.BinaryArray], NDArray[np.uint32]]
    Function = Callable[[pa.BinaryArray | None, pa.BinaryArray, int], Any]


class Keyless(Enum):
    """Which rows are treated like rows without a key, so that their keys are not hashed."""

    NONE = auto()
    """Every row is hashed; a null key is hashed as an empty key."""
    NULL = auto()
    NULL_OR_EMPTY = auto()


@dataclass(frozen=True, slots=True)
class KeyRule:
    """A partitioner that uses a 32-bit hash of the key modulo the partition count."""

    hash: Hash
    keyless: Keyless

    def hashes(self, keys: pa.BinaryArray) -> NDArray[np.uint32]:
        """Return the hash of each key, shape (n,); undefined for rows in `without_key`."""
        hashes = self.hash(keys)
        if self.keyless is Keyless.NONE and keys.null_count:
            hashes[np.asarray(keys.is_null())] = self.hash(pa.array([b""], pa.binary()))[0]
        return hashes

    def without_key(self, keys: pa.BinaryArray) -> Mask | None:
        """Return a mask of the rows without a key, shape (n,), or None if every row has a key."""
        if self.keyless is Keyless.NONE:
            return None
        if self.keyless is Keyless.NULL:
            return np.asarray(keys.is_null()) if keys.null_count else None
        missing = lengths_of(keys) == 0
        if keys.null_count:
            missing |= np.asarray(keys.is_null())
        return missing if missing.any() else None


KEY_RULES: Mapping[Kind, KeyRule] = {
    Kind.DEFAULT: KeyRule(positive_murmur2, Keyless.NULL),
    Kind.CONSISTENT: KeyRule(crc32, Keyless.NONE),
    Kind.CONSISTENT_RANDOM: KeyRule(crc32, Keyless.NULL_OR_EMPTY),
    Kind.MURMUR2: KeyRule(positive_murmur2, Keyless.NONE),
    Kind.MURMUR2_RANDOM: KeyRule(positive_murmur2, Keyless.NULL),
    Kind.FNV1A: KeyRule(fnv1a, Keyless.NONE),
    Kind.FNV1A_RANDOM: KeyRule(fnv1a, Keyless.NULL),
}
"""The partitioners that hash the key; all others have no entry."""


class UserPartitioner:
    """Calls ``function(key, value, partition_count)`` for n rows.

    `key` and `value` are Arrow binary arrays of length n; `key` is None if no row has a key. The
    function returns a NumPy or Arrow int32 array of length n: partitions below `partition_count`,
    or -1 for rows to be treated like rows without a key. If equal keys are to share a partition,
    the result must depend only on the arguments.

    Raises:
        ConfigError: the function cannot be imported, or is not callable.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._function: Function = _find(name)

    def assign(
        self, topic: TopicInfo, key: pa.BinaryArray | None, value: pa.BinaryArray
    ) -> Partitions:
        """Return the partition of each row, or UNASSIGNED, shape (n,).

        Raises:
            ColumnError: the function raised an exception, or returned an invalid result.
        """
        try:
            result = self._function(key, value, topic.partition_count)
        except Exception as error:
            raise self._invalid(f"raised {type(error).__name__}: {error}", topic) from error
        partitions = self._as_numpy(result, topic)
        if partitions.shape != (len(value),):
            raise self._invalid(
                f"returned shape {partitions.shape} for {plural(len(value), 'row')}; it must "
                "return one partition per row",
                topic,
            )
        wrong = (partitions < UNASSIGNED) | (partitions >= topic.partition_count)
        if wrong.any():
            row = int(wrong.argmax())
            raise self._invalid(
                f"returned partition {int(partitions[row])} for its row {row}; the topic has "
                f"partitions 0 to {topic.partition_count - 1}, and -1 means any partition",
                topic,
            )
        return partitions

    def _as_numpy(self, result: Any, topic: TopicInfo) -> Partitions:
        if isinstance(result, pa.Array):
            if result.null_count:
                raise self._invalid("returned nulls", topic)
            result = np.asarray(result)
        if not isinstance(result, np.ndarray) or result.dtype != np.int32:
            kind = result.dtype if isinstance(result, np.ndarray) else type(result).__name__
            raise self._invalid(
                f"returned {kind}; it must return a NumPy or Arrow int32 array", topic
            )
        return result

    def _invalid(self, what: str, topic: TopicInfo) -> ColumnError:
        return ColumnError(
            f"the partitioner {self.name} {what}",
            topic=topic.name,
            hint="correct the function, or remove kafka.partitioner",
        )


def _find(name: str) -> Function:
    module, _, path = name.partition(":")
    try:
        found = attrgetter(path)(import_module(module))
    except Exception as error:
        raise ConfigError(
            f"option kafka.partitioner is {name}, which cannot be imported: "
            f"{type(error).__name__}: {error}",
            hint="Put the module on the Python path of the executors, with --py-files or "
            "spark.submit.pyFiles.",
        ) from error
    if not callable(found):
        raise ConfigError(f"option kafka.partitioner is {name}, which is not callable")
    function: Function = found
    return function


_INT16_TARGETS = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The target number of each row, shape (n,), as int16 if possible.

    Target t is partition t - bases[i] of topics[i], where i is the greatest index with bases[i] <=
    t. The number after a topic's last partition means UNASSIGNED.
    """

    targets: NDArray[np.integer]
    topics: Topics
    bases: NDArray[np.int64]

    def target(self, number: int) -> tuple[TopicInfo, int]:
        """Return the topic and partition of a target number."""
        index = bisect_right(self.bases, number) - 1 if len(self.topics) > 1 else 0
        topic, partition = self.topics[index], number - int(self.bases[index])
        return topic, partition if partition < topic.partition_count else UNASSIGNED

    def take(self, rows: NDArray[np.intp]) -> Route:
        """Return the route of the rows at these positions."""
        return replace(self, targets=self.targets[rows])

    def number(self, index: int, partition: int) -> int:
        """Return the target number of a partition in topics[index]."""
        count = self.topics[index].partition_count
        return int(self.bases[index]) + (count if partition == UNASSIGNED else partition)

    def rows_of(self, partitions: Mapping[str, Collection[int]]) -> Mask | None:
        """Return a mask of the rows for these partitions by topic; None if there are no rows."""
        if not partitions:
            return None
        numbers = [
            self.number(index, partition)
            for index, topic in enumerate(self.topics)
            for partition in partitions.get(topic.name, ())
        ]
        found = np.isin(self.targets, numbers)
        return found if found.any() else None


@dataclass(frozen=True, slots=True)
class Admission:
    """The partitions, by topic, that do not accept rows of one chunk.

    - `broken`: the circuit breaker of the partition or of its leader is open. UNASSIGNED is
      included if all partitions that have a leader are included.
    - `full`: the partition or its leader has used up its buffer quota.
    """

    broken: Mapping[str, Collection[int]]
    full: Mapping[str, Collection[int]]


class Partitioner:
    """Assigns partitions to the rows of one producer session; writer thread only.

    Only `random` is shared: it is the client's generator, which the sender thread also uses. Each
    draw is atomic.
    """

    def __init__(self, config: ProducerConfig, random: Random) -> None:
        self._kind = config.partitioner
        self._ignore_keys = config.partitioner_ignore_keys
        self._adaptive = config.partitioner_adaptive_partitioning_enable
        self._rule = KEY_RULES.get(self._kind)
        self._random = random
        self._next_round: dict[str, int] = {}
        self.keyed: Counter[str] = Counter()
        self.assigned: Counter[str] = Counter()
        """Number of rows by topic: in `keyed`, rows with a hashed key; in `assigned`, rows with an
        explicit partition.
        """
        name = config.partitioner_function
        self._function = None if name is None else UserPartitioner(name)
        self._has_sticky_rows = name is None and self._kind not in {Kind.ROUND_ROBIN, Kind.RANDOM}
        """True if rows without a key are collected in batches that get their partition later."""

    def may_choose_later(self, rows: Rows) -> bool:
        """Return True if partitions are not needed yet: no row has a key or a partition."""
        rule, named = self._rule, rows.partition
        if (
            rule is None
            or rule.keyless is Keyless.NONE
            or not self._has_sticky_rows
            or not self._adaptive
        ):
            return False
        keys = None if self._ignore_keys else rows.columns.key
        keyless = keys is None or keys.null_count == len(keys)
        return keyless and (named is None or named.null_count == len(named))

    def assign(self, rows: Rows, topics: Topics) -> Route:
        """Return the target of each row; count keyed and explicit rows by topic.

        Args:
            rows: n rows whose `topics` match `topics` by position.
            topics: the topics in the cluster. A topic may be unknown (no partitions) if
                `may_choose_later` is true.

        Raises:
            ColumnError: a row specifies a partition that the topic does not have.
        """
        counts = np.array([topic.partition_count for topic in topics], np.int32)
        if rows.partition is not None and not rows.partition.null_count:
            partitions = _explicit_partitions(rows, rows.partition, topics)
            _count(self.assigned, np.ones(len(rows), np.bool_), rows, topics)
            return _route(rows, topics, counts, partitions)
        count_of = counts[rows.topic_of] if rows.topic_of is not None else counts[0]
        partitions = np.empty(len(rows), np.int32)
        others = self._explicit(rows, topics, partitions)
        if others is not None:
            _count(self.assigned, ~others, rows, topics)
        unassigned = self._keyed(rows, count_of, partitions, others)
        if unassigned is not None and unassigned is not others and not self._ignore_keys:
            keyed = ~unassigned if others is None else others & ~unassigned
            _count(self.keyed, keyed, rows, topics)
        if self._has_sticky_rows:
            np.copyto(partitions, count_of, where=True if unassigned is None else unassigned)
        else:
            self._fill(rows, topics, unassigned, partitions)
        return _route(rows, topics, counts, partitions)

    @staticmethod
    def _explicit(rows: Rows, topics: Topics, partitions: Partitions) -> Mask | None:
        """Fill in the explicit partitions; return a mask of the other rows (None: all rows)."""
        column = rows.partition
        if column is None or column.null_count == len(column):
            return None
        partitions[:] = _explicit_partitions(rows, column, topics)
        return np.asarray(column.is_null())

    def _keyed(
        self, rows: Rows, count_of: Partitions, partitions: Partitions, unassigned: Mask | None
    ) -> Mask | None:
        """Fill in the partitions of rows with a key; return a mask of the others (None: all)."""
        rule, keys = self._rule, None if self._ignore_keys else rows.columns.key
        if rule is None or (unassigned is not None and not unassigned.any()):
            return unassigned
        if keys is None or keys.null_count == len(keys):
            if rule.keyless is not Keyless.NONE:
                return unassigned
            keys = pa.array([b""] * len(rows), pa.binary())
        hashed = (rule.hashes(keys) % count_of.astype(np.uint32)).astype(np.int32)
        if unassigned is None:
            partitions[:] = hashed
        else:
            partitions[unassigned] = hashed[unassigned]
        without_key = rule.without_key(keys)
        if without_key is None:
            return np.zeros(len(rows), np.bool_)
        return without_key if unassigned is None else without_key & unassigned

    def _fill(
        self, rows: Rows, topics: Topics, unassigned: Mask | None, partitions: Partitions
    ) -> None:
        """Fill in the partitions chosen round robin, at random, or by the user function."""
        for topic, members in _by_topic(rows, topics, unassigned):
            if self._function is not None:
                partitions[members] = self._by_function(self._function, topic, rows, members)
            else:
                count = len(rows) if isinstance(members, slice) else len(members)
                partitions[members] = self._unkeyed(topic, count)

    def _unkeyed(self, topic: TopicInfo, count: int) -> Partitions:
        led = np.array(topic.led_partitions or range(topic.partition_count), np.int32)
        if self._kind is Kind.RANDOM:
            generator = np.random.default_rng(self._random.getrandbits(64))
            return led[generator.integers(len(led), size=count)]
        first = self._next_round.get(topic.name, 0)
        self._next_round[topic.name] = first + count
        return led[np.arange(first, first + count, dtype=np.int64) % len(led)]

    def _by_function(
        self,
        function: UserPartitioner,
        topic: TopicInfo,
        rows: Rows,
        members: slice | NDArray[np.intp],
    ) -> Partitions:
        key, value = None if self._ignore_keys else rows.columns.key, rows.columns.value
        if not isinstance(members, slice):
            picked = pa.array(members, pa.int64())
            key, value = None if key is None else key.take(picked), value.take(picked)
        result = function.assign(topic, key, value)
        return np.where(result == UNASSIGNED, np.int32(topic.partition_count), result)


def _count(counter: Counter[str], mask: Mask, rows: Rows, topics: Topics) -> None:
    if rows.topic_of is None:
        counter[topics[0].name] += int(np.count_nonzero(mask))
        return
    for topic, count in zip(
        topics, np.bincount(rows.topic_of[mask], minlength=len(topics)), strict=True
    ):
        counter[topic.name] += int(count)


def _explicit_partitions(rows: Rows, column: pa.Int32Array, topics: Topics) -> Partitions:
    """Return the partition that each row specifies, shape (n,), 0 for null.

    Raises:
        ColumnError: a row specifies a partition that the topic does not have.
    """
    named = np.asarray(column.fill_null(0) if column.null_count else column)
    wrong = out_of_range(rows, topics)
    if wrong is not None:
        _raise_out_of_range(rows, topics, int(wrong.argmax()), named)
    return named


def _by_topic(
    rows: Rows, topics: Topics, mask: Mask | None
) -> list[tuple[TopicInfo, slice | NDArray[np.intp]]]:
    """Return the rows that still need a partition, grouped by topic in their original order."""
    if rows.topic_of is None:
        if mask is None:
            return [(topics[0], slice(None))]
        members = np.flatnonzero(mask)
        return [(topics[0], members)] if len(members) else []
    unassigned = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
    order = np.argsort(rows.topic_of[unassigned], kind="stable")
    grouped = unassigned[order]
    numbers = rows.topic_of[grouped]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    groups = np.split(grouped, starts[1:])
    return [(topics[int(rows.topic_of[group[0]])], group) for group in groups if len(group)]


def _route(rows: Rows, topics: Topics, counts: Partitions, partitions: Partitions) -> Route:
    bases = np.zeros(len(topics), np.int64)
    if len(topics) > 1:
        (counts[:-1] + 1).cumsum(out=bases[1:])
    targets = partitions if rows.topic_of is None else partitions + bases[rows.topic_of]
    # NumPy sorts 16-bit integers by radix, about fifteen times faster than wider integers.
    small = int(bases[-1] + counts[-1]) < _INT16_TARGETS
    return Route(
        targets=targets.astype(np.int16 if small else np.int32), topics=topics, bases=bases
    )


def _raise_out_of_range(rows: Rows, topics: Topics, row: int, named: Partitions) -> None:
    topic = topics[0 if rows.topic_of is None else int(rows.topic_of[row])]
    raise ColumnError(
        f"{rows.name(row)} specifies a partition that does not exist: "
        f"the topic has partitions 0 to {topic.partition_count - 1}",
        topic=topic.name,
        partition=int(named[row]),
        hint="correct the `partition` column, or leave it null to let the partitioner choose",
    )


def candidates(leaders: Mapping[int, int], unavailable: Collection[int]) -> list[int]:
    """Return the partitions to choose from, excluding those of unavailable brokers if possible.

    `leaders` maps each partition that has a leader to its broker id.
    """
    if not unavailable:
        return list(leaders)
    reachable = [partition for partition, leader in leaders.items() if leader not in unavailable]
    return reachable or list(leaders)


def draw_order(
    partitions: Sequence[int], loads: Sequence[int] | None, random: Random
) -> Iterator[int]:
    """Yield the partitions in a random order, weighted towards short queues.

    A partition's weight is the length of the longest queue, plus one, minus the length of the
    partition's queue. So even the partition with the longest queue has a small chance.

    Args:
        partitions: the candidates.
        loads: batches queued or in flight for each candidate; None for equal weights.
        random: the random number generator.
    """
    lengths = loads or [0] * len(partitions)
    longest_plus_one = max(lengths, default=0) + 1
    # The probability that one of several independent exponential variables is the smallest is
    # proportional to its rate, so sorting them samples by weight without replacement.
    times = [
        (-log(1.0 - random.random()) / (longest_plus_one - length), partition)
        for length, partition in zip(lengths, partitions, strict=True)
    ]
    heapify(times)
    while times:
        yield heappop(times)[1]


class StickyPartitioner:
    """Chooses the current partition of each topic for rows without a key; writer thread only."""

    def __init__(self, context: SessionContext) -> None:
        self._client = client = context.client
        self._breakers = context.breakers
        self._accumulator = context.accumulator
        self._adaptive = client.config.partitioner_adaptive_partitioning_enable
        self._batch_size = client.config.batch_size
        self._current: dict[str, int] = {}

    def assign(self, route: Route, sizes: NDArray[np.int64], admission: Admission) -> Route:
        """Return the route with a partition for each row that needs a partition now.

        Args:
            route: the rows' route.
            sizes: upper bounds of the records in bytes, shape (n,).
            admission: the partitions to avoid because they do not accept the rows.
        """
        counts = list(_count_unassigned(route))
        with_assigned = {topic.name for topic, _, assigned in counts if assigned}
        self._accumulator.add_assigned_topics(with_assigned)
        sent = [topic.name for topic, _, assigned in counts if not assigned]
        if sent and self._adaptive:
            self._accumulator.remove_sent_topics(sent)
        needy = [
            index
            for index, (topic, missing, _) in enumerate(counts)
            if missing
            and topic.partition_count
            and (not self._adaptive or self._accumulator.needs_partition(topic.name))
        ]
        if not needy:
            return route
        targets = route.targets.copy()
        for index in needy:
            members = np.flatnonzero(targets == route.number(index, UNASSIGNED))
            chosen = self._choose(route.topics[index], sizes[members], admission)
            targets[members] = chosen + route.bases[index]
        return replace(route, targets=targets)

    def _choose(
        self, topic: TopicInfo, sizes: NDArray[np.int64], admission: Admission
    ) -> NDArray[np.int64]:
        """Return a partition for each of n rows; the open batches are filled one after another."""
        chosen = np.empty(len(sizes), np.int64)
        ends = sizes.cumsum()
        choices = self._choices(topic, admission)
        start, before = 0, 0
        while start < len(sizes):
            partition, room = next(choices)
            stop = max(int(ends.searchsorted(before + room, side="right")), start + 1)
            chosen[start:stop] = partition
            start, before = stop, int(ends[stop - 1])
            self._current[topic.name] = partition
        return chosen

    def _choices(self, topic: TopicInfo, admission: Admission) -> Iterator[tuple[int, int]]:
        """Yield partitions and the bytes left in their batches, the current partition first."""
        partitions = self._partitions(topic, admission)
        current = self._current.get(topic.name, UNASSIGNED)
        if current in partitions and self._accumulator.open_batch(
            TopicPartition(topic.name, current)
        ):
            yield current, self._room(topic, current)
        while True:
            for partition in draw_order(
                partitions, self._queued(topic, partitions), self._client.random
            ):
                yield partition, self._room(topic, partition)

    def _room(self, topic: TopicInfo, partition: int) -> int:
        batch = self._accumulator.open_batch(TopicPartition(topic.name, partition))
        largest = self._client.batch_size_limits.of(topic.name, self._client.clock.monotonic())
        return (largest or self._batch_size) - (batch.size if batch else HEADER_SIZE)

    def _partitions(self, topic: TopicInfo, admission: Admission) -> list[int]:
        """Return the partitions to draw from.

        If possible, these are the partitions that have a leader and accept records.
        """
        leaders = {number: one for number, one in enumerate(topic.leaders) if one != NO_LEADER}
        led = candidates(leaders, self._breakers.unavailable) or list(range(topic.partition_count))
        avoided = set(admission.broken.get(topic.name, ()))
        if self._adaptive:
            avoided.update(admission.full.get(topic.name, ()))
        return [partition for partition in led if partition not in avoided] or led

    def _queued(self, topic: TopicInfo, partitions: list[int]) -> list[int] | None:
        if not self._adaptive:
            return None
        lengths = self._accumulator.queue_lengths(topic.name)
        return [lengths[partition] for partition in partitions]


def _count_unassigned(route: Route) -> Iterator[tuple[TopicInfo, int, int]]:
    """Yield each topic, the number of its unassigned rows, and the number of its assigned rows."""
    if len(route.topics) == 1:
        missing = int(np.count_nonzero(route.targets == route.number(0, UNASSIGNED)))
        yield route.topics[0], missing, len(route.targets) - missing
        return
    last = route.number(len(route.topics) - 1, UNASSIGNED)
    counts = np.bincount(route.targets, minlength=last + 1)
    wholes = np.add.reduceat(counts, route.bases).tolist()
    for index, (topic, whole) in enumerate(zip(route.topics, wholes, strict=True)):
        missing = int(counts[route.number(index, UNASSIGNED)])
        yield topic, missing, whole - missing
