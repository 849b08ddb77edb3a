"""Sticky partitions for rows without a key: drawn at random, weighted towards short queues.

Batches of such rows normally get their partition when they can be sent (see `Drainer`). The writer
thread assigns it earlier in two cases:

- Rows of the same topic that have a partition, by key or explicitly, have not all been sent.
  Records that end up in one partition keep their order, so they must join its queue in their order.
- partitioner.adaptive.partitioning.enable is false, so load must not influence the choice.

The rows then fill the open batch of the drawn partition, together with rows that belong to it, and
continue with the next drawn partition.

Source: ``BuiltInPartitioner.nextPartition`` and ``updatePartitionLoadStats`` (KIP-480, KIP-794).
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop
from math import log
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.client.cluster import NO_LEADER, UNASSIGNED, TopicPartition
from spark_kafka_sink.records.record_batch import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from random import Random

    from numpy.typing import NDArray

    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.producer.append.admission import AdmissionControl
    from spark_kafka_sink.producer.append.partitioner import Route
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.context import SessionContext


def candidates(leaders: Mapping[int, int], unavailable: Collection[int]) -> list[int]:
    """Return the candidate partitions; those of unavailable brokers only if there are no others.

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

    The weight is the longest queue plus one, minus the partition's own queue, so even the partition
    with the longest queue has a small chance.

    Args:
        partitions: the candidates.
        loads: batches queued or in flight for each; None for equal weights.
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
    """Chooses the current partition of each topic's rows without a key; writer thread only."""

    def __init__(
        self, context: SessionContext, accumulator: Accumulator, admission: AdmissionControl
    ) -> None:
        self._client = client = context.client
        self._breakers = context.breakers
        self._accumulator = accumulator
        self._admission = admission
        self._adaptive = client.config.partitioner_adaptive_partitioning_enable
        self._batch_size = client.config.batch_size
        self._current: dict[str, int] = {}

    def assign(self, route: Route, sizes: NDArray[np.int64]) -> Route:
        """Return the route with a partition for each row that must have one now.

        `sizes` are upper bounds of the records in bytes, shape (n,).
        """
        counts = list(_count_unassigned(route))
        mixed = {topic.name for topic, _, assigned in counts if assigned}
        self._accumulator.add_assigned_topics(mixed)
        sent = [topic.name for topic, _, assigned in counts if not assigned]
        if sent and self._adaptive:
            self._accumulator.forget_sent_topics(sent)
        early = [
            index
            for index, (topic, missing, _) in enumerate(counts)
            if missing and topic.partition_count and self._is_early(topic.name)
        ]
        if not early:
            return route
        targets = route.targets.copy()
        for index in early:
            members = np.flatnonzero(targets == route.number(index, UNASSIGNED))
            chosen = self._choose(route.topics[index], sizes[members])
            targets[members] = chosen + route.bases[index]
        return replace(route, targets=targets)

    def _is_early(self, topic: str) -> bool:
        """Return True if the topic's unassigned rows need a partition now."""
        return not self._adaptive or self._accumulator.needs_partition(topic)

    def _choose(self, topic: TopicInfo, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a partition for each of n rows, filling the open batch of one after another."""
        chosen = np.empty(len(sizes), np.int64)
        ends = sizes.cumsum()
        choices = self._choices(topic)
        start, before = 0, 0
        while start < len(sizes):
            partition, room = next(choices)
            stop = max(int(ends.searchsorted(before + room, side="right")), start + 1)
            chosen[start:stop] = partition
            start, before = stop, int(ends[stop - 1])
            self._current[topic.name] = partition
        return chosen

    def _choices(self, topic: TopicInfo) -> Iterator[tuple[int, int]]:
        """Yield partitions and the room in their batches, first the current one if still open."""
        partitions = self._partitions(topic)
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

    def _partitions(self, topic: TopicInfo) -> list[int]:
        """Return the partitions to draw from: led and able to take records, if there are any."""
        leaders = {number: one for number, one in enumerate(topic.leaders) if one != NO_LEADER}
        led = candidates(leaders, self._breakers.unavailable) or list(range(topic.partition_count))
        avoided = self._admission.broken(topic)
        if self._adaptive:
            avoided |= self._admission.full(topic, self._batch_size)
        return [partition for partition in led if partition not in avoided] or led

    def _queued(self, topic: TopicInfo, partitions: list[int]) -> list[int] | None:
        if not self._adaptive:
            return None
        lengths = self._accumulator.queue_lengths(topic.name)
        return [lengths[partition] for partition in partitions]


def _count_unassigned(route: Route) -> Iterator[tuple[TopicInfo, int, int]]:
    """Yield each topic with its numbers of rows without and with a partition."""
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
