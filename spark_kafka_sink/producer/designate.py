"""Which partitions batches without a key go to: drawn by chance, the shortest queues first.

Pure: the load and the chance come with each call. Source: ``BuiltInPartitioner.nextPartition`` and
``updatePartitionLoadStats`` (KIP-480, KIP-794).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from random import Random


def able(leaders: Mapping[int, int], silent: Collection[int]) -> list[int]:
    """The partitions to draw from: not those of silent brokers, unless nobody else leads one.

    `leaders` is the leader of each partition that has one.
    """
    heard = [partition for partition, leader in leaders.items() if leader not in silent]
    return heard or list(leaders)


def drawn(partitions: Sequence[int], queued: Sequence[int] | None, random: Random) -> list[int]:
    """The partitions in the order in which they are drawn, each of them once.

    A partition weighs the longest queue plus one, less its own queue: the longest one still gets
    a little.

    Args:
        partitions: those to draw from.
        queued: batches that wait for each or are under way; None where all shall count alike.
        random: the chance.
    """
    if queued is None or len(set(queued)) < 2:
        return random.sample(partitions, len(partitions))
    top = max(queued) + 1
    # The first of several exponential times is each one's in proportion to its rate.
    times = [random.expovariate(top - length) for length in queued]
    return [partition for _, partition in sorted(zip(times, partitions, strict=True))]
