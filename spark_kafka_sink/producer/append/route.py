"""The target (topic and partition) of each row of a chunk."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.producer.rows import Rows

    Topics = tuple[ClusterTopic, ...]
    Mask = NDArray[np.bool_]
    """A boolean for each of n rows."""
    Partitions = NDArray[np.int32]
    """A partition for each of n rows."""


_INT16_TARGETS = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The target number of each row, shape (n,), as int16 if possible.

    Target bases[i] means UNASSIGNED in topics[i], and the numbers after it the topic's partitions.
    """

    targets: NDArray[np.integer]
    topics: Topics
    bases: NDArray[np.int64]

    def target(self, number: int) -> tuple[ClusterTopic, int]:
        """Return the topic and partition of a target number."""
        index = bisect_right(self.bases, number) - 1 if len(self.topics) > 1 else 0
        return self.topics[index], UNASSIGNED + number - int(self.bases[index])

    def select(self, rows: NDArray[np.intp]) -> Route:
        """Return the route of the rows at these positions."""
        return replace(self, targets=self.targets[rows])

    def number(self, index: int, partition: int) -> int:
        """Return the target number of a partition in topics[index]."""
        return int(self.bases[index]) + partition - UNASSIGNED

    def rows_of(self, partitions: Mapping[str, Collection[int]]) -> Mask | None:
        """Return a mask of the rows for these partitions by topic; None if there are no rows.

        Partitions that were added to a topic after the rows were assigned have no rows.
        """
        if not partitions:
            return None
        numbers = [
            self.number(index, partition)
            for index, topic in enumerate(self.topics)
            for partition in partitions.get(topic.name, ())
            if partition < topic.partition_count
        ]
        mask = np.isin(self.targets, numbers)
        return mask if mask.any() else None


def route_of(rows: Rows, topics: Topics, counts: Partitions, partitions: Partitions) -> Route:
    """Return the route of rows from their partitions, or UNASSIGNED, and the topics' `counts`."""
    bases = np.zeros(len(topics), np.int64)
    if len(topics) > 1:
        (counts[:-1] + 1).cumsum(out=bases[1:])
    targets = partitions - UNASSIGNED
    if rows.topic_indexes is not None:
        targets = targets + bases[rows.topic_indexes]
    # NumPy sorts 16-bit integers by radix, about fifteen times faster than wider integers.
    small = int(bases[-1] + counts[-1]) < _INT16_TARGETS
    return Route(
        targets=targets.astype(np.int16 if small else np.int32), topics=topics, bases=bases
    )
