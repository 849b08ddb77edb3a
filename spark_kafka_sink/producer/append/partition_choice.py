"""Which partitions batches without a key go to: drawn by chance, the shortest queues first.

Pure: the load and the chance come with each call. Source: ``BuiltInPartitioner.nextPartition`` and
``updatePartitionLoadStats`` (KIP-480, KIP-794).
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


def able(leaders: Mapping[int, int], silent: Collection[int]) -> list[int]:
    """The partitions to draw from: not those of silent brokers, unless nobody else leads one.

    `leaders` is the leader of each partition that has one.
    """
    if not silent:
        return list(leaders)
    heard = [partition for partition, leader in leaders.items() if leader not in silent]
    return heard or list(leaders)


def queued(queues: Mapping[TopicPartition, Collection[ProducerBatch]], topic: str) -> Counter[int]:
    """Batches that wait for each partition of a topic."""
    lengths: Counter[int] = Counter()
    for topic_partition, queue in queues.items():
        if queue and topic_partition.topic == topic:
            lengths[topic_partition.partition] = len(queue)
    return lengths


def drawn(partitions: Sequence[int], queued: Sequence[int] | None, random: Random) -> Iterator[int]:
    """The partitions in the order in which they are drawn, each of them once.

    A partition weighs the longest queue plus one, less its own queue: the longest one still gets
    a little.

    Args:
        partitions: those to draw from.
        queued: batches that wait for each or are in flight; None where all shall count alike.
        random: the chance.
    """
    lengths = queued or [0] * len(partitions)
    top = max(lengths, default=0) + 1
    # The first of several exponential times is each one's in proportion to its rate.
    times = [
        (-log(1.0 - random.random()) / (top - length), partition)
        for length, partition in zip(lengths, partitions, strict=True)
    ]
    heapify(times)
    while times:
        yield heappop(times)[1]
