"""buffer.memory: what is charged, by whom it is held, when it is free again.

A chunk of encoded rows is one Arrow buffer that several batches share, so it is charged as a
whole and freed when the last of them is done. The accumulator's lock guards all of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import BufferTimeoutError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch

SHORT_AFTER = 0.02
"""Seconds without room after which open batches are closed: until then those that are full already
and under way are given the time to make room, as a batch sent early costs as much as a full one."""
COPY_BELOW = 8
"""A slice under one eighth of its chunk is copied: it must not keep the whole chunk alive."""

PINNED_FOR = 1.0
"""Seconds after which a slice is copied that keeps a mostly finished chunk alive, when room is
short: with brokers that take data a chunk is done long before."""


@dataclass(slots=True)
class Charge:
    """`size` bytes that stay charged until all `holders` have let go."""

    size: int
    holders: int = 1


class BufferPool:
    """A counter of charged bytes with a limit."""

    __slots__ = ("limit", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0

    def fits(self, size: int) -> bool:
        """Whether `size` bytes more stay within the limit; an empty buffer takes anything."""
        return self.used == 0 or self.used + size <= self.limit

    def take(self, size: int) -> None:
        """Charge `size` bytes."""
        self.used += size
        self.peak = max(self.peak, self.used)

    def give_back(self, size: int) -> None:
        """Free `size` bytes."""
        self.used -= size

    def let_go(self, charges: list[Charge]) -> None:
        """One holder of each charge is done with it."""
        for charge in charges:
            charge.holders -= 1
            if charge.holders == 0:
                self.used -= charge.size
        charges.clear()

    def stayed_full(self, size: int, max_block_ms: int) -> BufferTimeoutError:
        """The error that there was no room for `size` bytes within max.block.ms."""
        return BufferTimeoutError(
            f"no room for {size:,} bytes within max.block.ms = {max_block_ms}: "
            f"{self.used:,} of {self.limit:,} bytes wait for acknowledgement",
            hint="check that the brokers take data; "
            "raise kafka.buffer.memory or kafka.max.block.ms",
        )


def unpin(
    memory: BufferPool, batches: Collection[ProducerBatch], old: Iterable[ProducerBatch]
) -> None:
    """Copy what alone keeps chunks charged: a stalled partition must not hold all of them.

    What a socket has yet to write stays in memory until it has, or the connection is closed.

    Args:
        memory: what is charged.
        batches: every batch that holds charges, one for each of its parts.
        old: those of them whose parts may be copied.
    """
    live: Counter[int] = Counter()
    for batch in batches:
        for part, charge in zip(batch.parts, batch.charges, strict=True):
            live[id(charge)] += memoryview(part).nbytes
    for batch in old:
        for index, charge in enumerate(batch.charges):
            if live[id(charge)] * COPY_BELOW < charge.size * (COPY_BELOW - 1):
                _copy_part(memory, batch, index)


def _copy_part(memory: BufferPool, batch: ProducerBatch, index: int) -> None:
    data, charge = bytes(batch.parts[index]), batch.charges[index]
    parts = list(batch.parts)
    parts[index] = data
    batch.parts = parts  # a new list: the codec thread may be reading the old one
    batch.charges[index] = Charge(len(data))
    memory.take(len(data))
    memory.let_go([charge])
