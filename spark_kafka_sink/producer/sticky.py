"""Rows without a key stay on one partition for a batch's worth of bytes, then move on.

The next partition is drawn by chance, the less likely the more batches wait for it; one that can't
take data is left out. Source: ``BuiltInPartitioner.nextPartition`` and
``updatePartitionLoadStats`` (KIP-480, KIP-794).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from numpy.typing import NDArray

    from spark_kafka_sink.client.cluster import TopicInfo


class Loads(Protocol):
    """What the choice of a partition depends on; asked by the writer thread."""

    def left_out(self, topic: TopicInfo) -> frozenset[int]:
        """Partitions that are to get nothing while another one can."""
        ...

    def queued(self, topic: TopicInfo) -> Sequence[int] | None:
        """Batches that wait for each partition; None: all count alike."""
        ...


@dataclass(frozen=True, slots=True)
class Draw:
    """Partitions to draw from, and their cumulative weights; None: all alike."""

    partitions: Sequence[int]
    weights: Sequence[int] | None

    def one(self, random: Random) -> int:
        """A partition by chance."""
        return random.choices(self.partitions, cum_weights=self.weights)[0]


def draw_from(topic: TopicInfo, left_out: frozenset[int], queued: Sequence[int] | None) -> Draw:
    """What to draw a topic's next partition from.

    A partition weighs the longest queue plus one, less its own queue: the longest one still gets
    a little. Where nothing else is left, partitions left out count again, then those without a
    leader.
    """
    led = topic.led_partitions
    able = [partition for partition in led if partition not in left_out] if left_out else led
    partitions = able or led or range(topic.partition_count)
    if queued is None:
        return Draw(partitions, None)
    lengths = [queued[partition] for partition in partitions]
    top = max(lengths) + 1
    if min(lengths) + 1 == top:
        return Draw(partitions, None)
    return Draw(partitions, list(accumulate(top - length for length in lengths)))


@dataclass(slots=True)
class _Place:
    partition: int
    room: int


class Sticky:
    """Where each topic's rows without a key go; `room` in bytes of records per batch."""

    def __init__(self, room: int, random: Random, loads: Loads | None = None) -> None:
        self._room = room
        self._random = random
        self._loads = loads
        self._places: dict[str, _Place] = {}

    def assign(self, topic: TopicInfo, sizes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Partition of each row, shape (n,); `sizes` are upper bounds of the records in bytes.

        A partition that has been left out since is left at once, and a batch's worth of bytes
        otherwise.
        """
        left_out = self._loads.left_out(topic) if self._loads else frozenset()
        draw: Draw | None = None
        place = self._places.get(topic.name)
        ends = sizes.cumsum()
        chosen = np.empty(len(sizes), np.int32)
        row, spent, rows = 0, 0, len(sizes)
        while row < rows:
            if place is None or place.room <= 0 or not _is_good(place, topic, left_out):
                draw = draw or self._draw(topic, left_out)
                place = _Place(draw.one(self._random), self._room)
            stop = int(ends.searchsorted(spent + place.room, side="right"))
            if stop == row and place.room == self._room:
                stop = row + 1  # larger than a batch: it gets one of its own
            chosen[row:stop] = place.partition
            if stop > row:
                place.room -= int(ends[stop - 1]) - spent
                spent = int(ends[stop - 1])
            if stop < rows:
                place.room = 0
            row = stop
        if place is not None:
            self._places[topic.name] = place
        return chosen

    def _draw(self, topic: TopicInfo, left_out: frozenset[int]) -> Draw:
        return draw_from(topic, left_out, self._loads.queued(topic) if self._loads else None)


def _is_good(place: _Place, topic: TopicInfo, left_out: frozenset[int]) -> bool:
    return place.partition < topic.partition_count and place.partition not in left_out
