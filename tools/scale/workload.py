"""The size of a write."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Tasks of one write into one topic, their rows spread over its partitions by their keys."""

    tasks: int
    slots: int
    """Tasks at once, each in a Python worker that is used again for the next."""
    partitions: int
    brokers: int
    rows: int
    """Of one task."""
    row_bytes: int = 200
    """A record in Kafka, uncompressed."""
    task_seconds: float = 2.0
    """Time of one task, for the rates."""
    replicas: int = 3
    exactly_once: bool = False

    @property
    def guarantee(self) -> str:
        """`deliveryGuarantee`."""
        return "exactly-once" if self.exactly_once else "at-least-once"

    @property
    def task_partitions(self) -> float:
        """Partitions that a task writes to."""
        return touched(self.rows, self.partitions)

    @property
    def worker_partitions(self) -> float:
        """Partitions that a worker writes to in all of its tasks."""
        return touched(self.rows * max(1, self.tasks // self.slots), self.partitions)

    @property
    def task_brokers(self) -> float:
        """Leaders of the partitions of a task."""
        return touched(round(self.task_partitions), self.brokers)

    @property
    def worker_connections(self) -> float:
        """One to each leader, and one to a bootstrap server."""
        return touched(round(self.worker_partitions), self.brokers) + 1

    @property
    def tasks_per_second(self) -> float:
        """Of all slots together."""
        return self.slots / self.task_seconds


def touched(rows: int, places: int) -> float:
    """How many of so many places, equally likely, have one of these rows; the mean."""
    return places * (1 - (1 - 1 / places) ** rows)


_SIZES = (
    Workload(tasks=100, slots=16, partitions=8, brokers=3, rows=1_000_000, task_seconds=2.0),
    Workload(tasks=1_000, slots=100, partitions=100, brokers=10, rows=100_000, task_seconds=1.0),
    Workload(tasks=10_000, slots=1_000, partitions=1_000, brokers=100, rows=100_000),
    Workload(
        tasks=10_000, slots=1_000, partitions=1_000, brokers=100, rows=1_000, task_seconds=0.5
    ),
)
WORKLOADS = tuple(
    replace(size, exactly_once=exactly_once) for exactly_once in (False, True) for size in _SIZES
)
"""Those of docs/scale.md."""
