"""Assign a partition to each row: explicit, by key hash, round robin, or by a user function.

Rows without a key (see `Keyless`) get sticky partitions, unless the partitioner is
RoundRobinPartitioner, random or a user function: each batch of such rows gets one partition, drawn
at random and weighted towards short queues. This also applies to the partitioners
consistent_random, murmur2_random and fnv1a_random, as it does in librdkafka by default.

The key hashes (murmur2, CRC-32, FNV-1a) are in `kafka/records/key_hashes`.

Source: ``BuiltInPartitioner`` (KIP-480, KIP-794), ``RoundRobinPartitioner``; librdkafka's
``rd_kafka_msg_partitioner_*``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.enums import PartitionerName
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED
from spark_kafka_sink.kafka.records.columns import nullable_lengths
from spark_kafka_sink.kafka.records.key_hashes import crc32, fnv1a, positive_murmur2
from spark_kafka_sink.producer.append.route import Route, route_of
from spark_kafka_sink.producer.append.user_partitioner import UserPartitioner
from spark_kafka_sink.producer.bad_rows.row_error import out_of_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from numpy.typing import NDArray

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.producer.append.route import Mask, Partitions, Topics
    from spark_kafka_sink.producer.rows import Rows

    Hash = Callable[[pa.BinaryArray], NDArray[np.uint32]]


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
    """Returns the hash of each key, shape (n,). Null keys are hashed as empty keys."""
    keyless: Keyless

    def with_key(self, keys: pa.BinaryArray) -> Mask:
        """Return a mask of the rows whose key determines the partition, shape (n,)."""
        if self.keyless is Keyless.NONE:
            return np.ones(len(keys), np.bool_)
        if self.keyless is Keyless.NULL:
            return np.asarray(keys.is_valid())
        return nullable_lengths(keys) > 0


KEY_RULES: Mapping[PartitionerName, KeyRule] = {
    PartitionerName.DEFAULT: KeyRule(positive_murmur2, Keyless.NULL),
    PartitionerName.CONSISTENT: KeyRule(crc32, Keyless.NONE),
    PartitionerName.CONSISTENT_RANDOM: KeyRule(crc32, Keyless.NULL_OR_EMPTY),
    PartitionerName.MURMUR2: KeyRule(positive_murmur2, Keyless.NONE),
    PartitionerName.MURMUR2_RANDOM: KeyRule(positive_murmur2, Keyless.NULL),
    PartitionerName.FNV1A: KeyRule(fnv1a, Keyless.NONE),
    PartitionerName.FNV1A_RANDOM: KeyRule(fnv1a, Keyless.NULL),
}
"""The partitioners that hash the key; all others have no entry."""


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
        self.keyed_rows: Counter[str] = Counter()
        """Number of rows with a hashed key, by topic."""
        self.assigned_rows: Counter[str] = Counter()
        """Number of rows with an explicit partition, by topic."""
        name = config.partitioner_function
        self._function = None if name is None else UserPartitioner(name)
        self._has_sticky_rows = name is None and self._kind not in {
            PartitionerName.ROUND_ROBIN,
            PartitionerName.RANDOM,
        }
        """True if rows without a key are collected in batches that get their partition later."""

    def may_choose_later(self, rows: Rows) -> bool:
        """Return True if partitions are not needed yet: no row has a key or a partition."""
        rule, explicit = self._rule, rows.partition
        if (
            rule is None
            or rule.keyless is Keyless.NONE
            or not self._has_sticky_rows
            or not self._adaptive
        ):
            return False
        keys = None if self._ignore_keys else rows.columns.key
        keyless = keys is None or keys.null_count == len(keys)
        return keyless and (explicit is None or explicit.null_count == len(explicit))

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
        count_of = counts[0 if rows.topic_indexes is None else rows.topic_indexes]
        partitions = np.full(len(rows), UNASSIGNED, np.int32)
        explicit = self._assign_explicit(rows, topics, partitions)
        keyed = self._assign_keyed(rows, count_of, ~explicit, partitions)
        if not self._has_sticky_rows:
            self._assign_rest(rows, topics, ~(explicit | keyed), partitions)
        _count_by_topic(self.assigned_rows, explicit, rows, topics)
        if not self._ignore_keys:
            _count_by_topic(self.keyed_rows, keyed, rows, topics)
        return route_of(rows, topics, counts, partitions)

    @staticmethod
    def _assign_explicit(rows: Rows, topics: Topics, partitions: Partitions) -> Mask:
        """Fill in the partitions that rows specify; return a mask of these rows."""
        column = rows.partition
        if column is None or column.null_count == len(column):
            return np.zeros(len(rows), np.bool_)
        explicit: Mask = np.asarray(column.is_valid())
        np.copyto(partitions, _explicit_partitions(rows, column, topics), where=explicit)
        return explicit

    def _assign_keyed(
        self, rows: Rows, count_of: Partitions, open_rows: Mask, partitions: Partitions
    ) -> Mask:
        """Fill in the partitions of the open rows with a key; return a mask of these rows."""
        rule = self._rule
        keys = None if self._ignore_keys else rows.columns.key
        is_keyless = keys is None or keys.null_count == len(keys)
        if rule is None or not open_rows.any() or (is_keyless and rule.keyless is not Keyless.NONE):
            return np.zeros(len(rows), np.bool_)
        if keys is None:
            keys = pa.array([b""] * len(rows), pa.binary())
        keyed = open_rows & rule.with_key(keys)
        hashed = (rule.hash(keys) % count_of.astype(np.uint32)).astype(np.int32)
        np.copyto(partitions, hashed, where=keyed)
        return keyed

    def _assign_rest(
        self, rows: Rows, topics: Topics, open_rows: Mask, partitions: Partitions
    ) -> None:
        """Fill in the partitions chosen round robin, at random, or by the user function."""
        for topic, members in _by_topic(rows, topics, open_rows):
            if self._function is not None:
                partitions[members] = self._call_function(self._function, topic, rows, members)
            else:
                partitions[members] = self._choose_partitions(topic, len(members))

    def _choose_partitions(self, topic: ClusterTopic, count: int) -> Partitions:
        led = np.array(topic.led_partitions or range(topic.partition_count), np.int32)
        if self._kind is PartitionerName.RANDOM:
            generator = np.random.default_rng(self._random.getrandbits(64))
            return led[generator.integers(len(led), size=count)]
        first = self._next_round.get(topic.name, 0)
        self._next_round[topic.name] = first + count
        return led[np.arange(first, first + count, dtype=np.int64) % len(led)]

    def _call_function(
        self,
        function: UserPartitioner,
        topic: ClusterTopic,
        rows: Rows,
        members: NDArray[np.intp],
    ) -> Partitions:
        key, value = None if self._ignore_keys else rows.columns.key, rows.columns.value
        if len(members) < len(rows):
            picked = pa.array(members, pa.int64())
            key, value = None if key is None else key.take(picked), value.take(picked)
        return function.assign(topic, key, value)


def _count_by_topic(counter: Counter[str], mask: Mask, rows: Rows, topics: Topics) -> None:
    if rows.topic_indexes is None:
        counter[topics[0].name] += int(np.count_nonzero(mask))
        return
    for topic, count in zip(
        topics, np.bincount(rows.topic_indexes[mask], minlength=len(topics)), strict=True
    ):
        counter[topic.name] += int(count)


def _explicit_partitions(rows: Rows, column: pa.Int32Array, topics: Topics) -> Partitions:
    """Return the partition that each row specifies, shape (n,), 0 for null.

    Raises:
        ColumnError: a row specifies a partition that the topic does not have.
    """
    numbers = np.asarray(column.fill_null(0) if column.null_count else column)
    wrong = out_of_range(rows, topics)
    if wrong is not None:
        _raise_out_of_range(rows, topics, int(wrong.argmax()), numbers)
    return numbers


def _by_topic(
    rows: Rows, topics: Topics, mask: Mask
) -> list[tuple[ClusterTopic, NDArray[np.intp]]]:
    """Return the positions of these rows, grouped by topic in their original order."""
    members = np.flatnonzero(mask)
    if not len(members):
        return []
    if rows.topic_indexes is None:
        return [(topics[0], members)]
    grouped = members[np.argsort(rows.topic_indexes[members], kind="stable")]
    starts = np.flatnonzero(np.diff(rows.topic_indexes[grouped]))
    groups = np.split(grouped, starts + 1)
    return [(topics[int(rows.topic_indexes[group[0]])], group) for group in groups]


def _raise_out_of_range(rows: Rows, topics: Topics, row: int, numbers: Partitions) -> None:
    topic = topics[0 if rows.topic_indexes is None else int(rows.topic_indexes[row])]
    raise ColumnError(
        f"{rows.name(row)} specifies a partition that does not exist: "
        f"the topic has partitions 0 to {topic.partition_count - 1}",
        topic=topic.name,
        partition=int(numbers[row]),
        hint="Correct the `partition` column, or leave it null to let the partitioner choose.",
    )
