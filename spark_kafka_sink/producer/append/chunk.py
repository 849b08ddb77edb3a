"""The stages of a chunk: valid rows, admitted rows, and rows that are routed to partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
    from spark_kafka_sink.producer.append.route import Route
    from spark_kafka_sink.producer.rows import Rows


@dataclass(frozen=True, slots=True)
class BlockedTargets:
    """The partitions, by topic, that do not accept rows of one chunk."""

    breaker_open: Mapping[str, Collection[int]]
    """The circuit breaker of the partition or of its leader is open. UNASSIGNED is included if all
    partitions that have a leader are included.
    """
    over_quota: Mapping[str, Collection[int]]
    """The partition or its leader has used up its buffer quota."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of n valid rows."""

    rows: Rows
    topics: tuple[ClusterTopic, ...]
    """Match `rows.topics` by position."""
    sizes: NDArray[np.int64]
    """Upper bounds of the encoded records in bytes, shape (n,)."""
    size: int = field(init=False)
    """The sum of `sizes`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", int(self.sizes.sum()))

    def __len__(self) -> int:
        return len(self.sizes)

    def slice(self, start: int, stop: int) -> Chunk:
        """Return rows start..stop as views."""
        return Chunk(self.rows.slice(start, stop), self.topics, self.sizes[start:stop])


@dataclass(frozen=True, slots=True)
class AdmittedChunk(Chunk):
    """A chunk that is charged to the buffer, and the partitions that do not accept its rows now."""

    blocked_targets: BlockedTargets


@dataclass(frozen=True, slots=True)
class RoutedChunk(AdmittedChunk):
    """An admitted chunk and its route."""

    route: Route

    def select(self, numbers: NDArray[np.intp]) -> RoutedChunk:
        """Return the rows at these positions."""
        rows, route = self.rows.select(numbers), self.route.select(numbers)
        return RoutedChunk(rows, self.topics, self.sizes[numbers], self.blocked_targets, route)
