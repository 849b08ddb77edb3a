"""Choose the partitions of rows without a key while their chunk is appended.

Normally, a batch of rows without a key gets its partition when it can be sent (see `Drainer`).
`StickyPartitioner`, on the writer thread, assigns the partition earlier in two cases:

- Some rows of the same topic have a key or an explicit partition and are not yet sent. To keep the
  order of the records within a partition, all rows must be queued in order.
- partitioner.adaptive.partitioning.enable is false, so the load must not affect the choice.

In these cases, rows without a key are added to the open batch of a randomly drawn partition until
it is full, then to the batch of the next drawn partition (see `draw_order`).

Source: ``BuiltInPartitioner`` (KIP-480, KIP-794).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER, UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.producer.buffer.partition_draw import available_partitions, draw_order

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from numpy.typing import NDArray

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.producer.append.chunk import BlockedTargets
    from spark_kafka_sink.producer.append.route import Route
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.assigned_topics import AssignedTopics
    from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
    from spark_kafka_sink.producer.limits.circuit_breakers import CircuitBreakers
    from spark_kafka_sink.producer.limits.size_limits import BatchSizeLimits


@dataclass(kw_only=True, eq=False)
class StickyPartitioner:
    """Chooses the current partition of each topic for rows without a key; writer thread only."""

    config: ProducerConfig
    clock: Clock
    random: Random
    learned_limits: BatchSizeLimits
    accumulator: Accumulator
    assigned_topics: AssignedTopics
    queues: BatchQueues
    breakers: CircuitBreakers

    def __post_init__(self) -> None:
        self._adaptive = self.config.partitioner_adaptive_partitioning_enable
        self._current: dict[str, int] = {}

    def assign(
        self, route: Route, sizes: NDArray[np.int64], blocked_targets: BlockedTargets
    ) -> Route:
        """Return the route with a partition for each row that needs a partition now.

        Args:
            route: the rows' route.
            sizes: upper bounds of the records in bytes, shape (n,).
            blocked_targets: the partitions to avoid because they do not accept the rows.
        """
        counts = list(_count_unassigned(route))
        with_assigned = {topic.name for topic, _, assigned in counts if assigned}
        self.assigned_topics.add(with_assigned)
        sent = [topic.name for topic, _, assigned in counts if not assigned]
        if sent and self._adaptive:
            self.assigned_topics.remove_sent(sent)
        indexes = [
            index
            for index, (topic, missing, _) in enumerate(counts)
            if missing
            and topic.partition_count
            and (not self._adaptive or topic.name in self.assigned_topics)
        ]
        if not indexes:
            return route
        targets = route.targets.copy()
        for index in indexes:
            members = np.flatnonzero(targets == route.number(index, UNASSIGNED))
            chosen = self._choose(route.topics[index], sizes[members], blocked_targets)
            targets[members] = chosen + route.number(index, 0)
        return replace(route, targets=targets)

    def _choose(
        self, topic: ClusterTopic, sizes: NDArray[np.int64], blocked_targets: BlockedTargets
    ) -> NDArray[np.int64]:
        """Return a partition for each of n rows; the open batches are filled one after another."""
        chosen = np.empty(len(sizes), np.int64)
        ends = sizes.cumsum()
        choices = self._partitions_with_room(topic, blocked_targets)
        start, before = 0, 0
        while start < len(sizes):
            partition, room = next(choices)
            stop = max(int(ends.searchsorted(before + room, side="right")), start + 1)
            chosen[start:stop] = partition
            start, before = stop, int(ends[stop - 1])
            self._current[topic.name] = partition
        return chosen

    def _partitions_with_room(
        self, topic: ClusterTopic, blocked_targets: BlockedTargets
    ) -> Iterator[tuple[int, int]]:
        """Yield partitions and the bytes left in their batches, the current partition first."""
        partitions = self._drawable_partitions(topic, blocked_targets)
        current = self._current.get(topic.name, UNASSIGNED)
        if current in partitions and self.accumulator.open_batch(
            TopicPartition(topic.name, current)
        ):
            yield current, self._room_in_batch(topic, current)
        while True:
            for partition in draw_order(
                partitions, self._queued_bytes(topic, partitions), self.random
            ):
                yield partition, self._room_in_batch(topic, partition)

    def _room_in_batch(self, topic: ClusterTopic, partition: int) -> int:
        batch = self.accumulator.open_batch(TopicPartition(topic.name, partition))
        largest = self.learned_limits.of(topic.name, self.clock.monotonic())
        return largest - (batch.size if batch else HEADER_SIZE)

    def _drawable_partitions(
        self, topic: ClusterTopic, blocked_targets: BlockedTargets
    ) -> list[int]:
        """Return the partitions to draw from.

        If possible, these are the partitions that have a leader and accept records.
        """
        leaders = {
            number: leader for number, leader in enumerate(topic.leaders) if leader != NO_LEADER
        }
        led = available_partitions(leaders, self.breakers.unavailable) or list(
            range(topic.partition_count)
        )
        avoided = set(blocked_targets.breaker_open.get(topic.name, ()))
        if self._adaptive:
            avoided.update(blocked_targets.over_quota.get(topic.name, ()))
        return [partition for partition in led if partition not in avoided] or led

    def _queued_bytes(self, topic: ClusterTopic, partitions: list[int]) -> list[int] | None:
        if not self._adaptive:
            return None
        lengths = self.queues.lengths(topic.name)
        return [lengths[partition] for partition in partitions]


def _count_unassigned(route: Route) -> Iterator[tuple[ClusterTopic, int, int]]:
    """Yield each topic, the number of its unassigned rows, and the number of its assigned rows."""
    if len(route.topics) == 1:
        missing = int(np.count_nonzero(route.targets == route.number(0, UNASSIGNED)))
        yield route.topics[0], missing, len(route.targets) - missing
        return
    counts = np.bincount(route.targets, minlength=int(route.bases[-1]) + 1)
    wholes = np.add.reduceat(counts, route.bases).tolist()
    for index, (topic, whole) in enumerate(zip(route.topics, wholes, strict=True)):
        missing = int(counts[route.number(index, UNASSIGNED)])
        yield topic, missing, whole - missing
