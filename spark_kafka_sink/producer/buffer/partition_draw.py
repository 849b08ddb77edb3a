"""Draw partitions for rows without a key, weighted towards short queues.

Source: ``BuiltInPartitioner`` (KIP-794).
"""

from __future__ import annotations

from heapq import heapify, heappop
from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from random import Random


def available_partitions(leaders: Mapping[int, int], unavailable: Collection[int]) -> list[int]:
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
