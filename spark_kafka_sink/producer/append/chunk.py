"""The rows of one chunk on their way through the writer's stages, and what each has added."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.producer.append.partitioner import Route
    from spark_kafka_sink.producer.rows import Rows


@dataclass(frozen=True, slots=True)
class Chunk:
    """n valid rows: `topics` are those of `rows.topics`, by position.

    `sizes` is the upper bound of each encoded record in bytes, shape (n,), `size` of all together.
    """

    rows: Rows
    topics: tuple[TopicInfo, ...]
    sizes: NDArray[np.int64]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", int(self.sizes.sum()))

    def __len__(self) -> int:
        return len(self.sizes)

    def slice(self, start: int, stop: int) -> Chunk:
        """Rows start..stop as views."""
        return Chunk(self.rows.slice(start, stop), self.topics, self.sizes[start:stop])


@dataclass(frozen=True, slots=True)
class RoutedChunk:
    """n rows and where each goes; `size` is the upper bound of all records together in bytes."""

    rows: Rows
    sizes: NDArray[np.int64]
    route: Route
    size: int

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, numbers: NDArray[np.intp]) -> RoutedChunk:
        """The rows with these numbers."""
        sizes = self.sizes[numbers]
        route = self.route.take(numbers)
        return RoutedChunk(self.rows.take(numbers), sizes, route, int(sizes.sum()))
