"""Chooses partitions for batches without a key: at random, weighted towards short queues.

Pure: callers pass the queue lengths and the random generator.
Source: ``BuiltInPartitioner.nextPartition`` and ``updatePartitionLoadStats`` (KIP-480, KIP-794).
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop
from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from random import Random

    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch


def candidates(leaders: Mapping[int, int], unavailable: Collection[int]) -> list[int]:
    """The candidate partitions: those of unavailable brokers only if there are no others.

    `leaders` is the leader of each partition that has one.
    """
    if not unavailable:
        return list(leaders)
    reachable = [partition for partition, leader in leaders.items() if leader not in unavailable]
    return reachable or list(leaders)


def queue_lengths(
    queues: Mapping[TopicPartition, Collection[ProducerBatch]], topic: str
) -> Counter[int]:
    """Number of queued batches for each partition of a topic."""
    lengths: Counter[int] = Counter()
    for topic_partition, queue in queues.items():
        if queue and topic_partition.topic == topic:
            lengths[topic_partition.partition] = len(queue)
    return lengths


def draw_order(
    partitions: Sequence[int], loads: Sequence[int] | None, random: Random
) -> Iterator[int]:
    """The partitions in a random order, weighted towards short queues.

    The weight is the longest queue plus one, minus the partition's own queue, so even the longest
    one has a small chance.

    Args:
        partitions: the candidates.
        loads: batches queued or in flight for each; None for equal weights.
        random: the random number generator.
    """
    lengths = loads or [0] * len(partitions)
    longest_plus_one = max(lengths, default=0) + 1
    # Of independent exponential variables, each is the smallest with a probability proportional
    # to its rate: sorting them samples without replacement by weight.
    times = [
        (-log(1.0 - random.random()) / (longest_plus_one - length), partition)
        for length, partition in zip(lengths, partitions, strict=True)
    ]
    heapify(times)
    while times:
        yield heappop(times)[1]
