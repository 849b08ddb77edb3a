"""Which nodes hold a partition: the broker's own choice, and what may be asked for.

As ReplicationControlManager.validateManualPartitionAssignment of Kafka: nodes that are down are
registered still, so they may be named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True, slots=True)
class Brokers:
    """The nodes of the cluster, and those of them that may lead."""

    registered: Sequence[int]
    active: Collection[int]

    def problem_with(self, replicas: Sequence[int], size: int | None) -> str | None:
        """Say why a partition can't have these replicas, None if it can; the others have `size`."""
        if not replicas:
            return "The manual partition assignment includes an empty replica list."
        for node in sorted(replicas):
            if node not in self.registered:
                return (
                    f"The manual partition assignment includes broker {node}, but no such broker "
                    "is registered."
                )
            if replicas.count(node) > 1:
                return f"The manual partition assignment includes the broker {node} more than once."
        if size is not None and len(replicas) != size:
            return (
                f"The manual partition assignment includes a partition with {len(replicas)} "
                f"replica(s), but the others have {size}."
            )
        return None

    def problem_with_new(self, replicas: Sequence[int], size: int | None) -> str | None:
        """The same for a new partition, which needs a leader."""
        problem = self.problem_with(replicas, size)
        if problem is None and not self.living(replicas):
            return "All brokers specified in the manual partition assignment are fenced."
        return problem

    def living(self, replicas: Sequence[int]) -> list[int]:
        """Those of the replicas that may be in sync."""
        return [node for node in replicas if node in self.active]

    def assign(self, index: int, replication_factor: int) -> list[int]:
        """Replicas of a partition in turn; nodes that are down come last and lead nothing."""
        living = [node for node in self.registered if node in self.active]
        turn = [living[(index + step) % len(living)] for step in range(len(living))]
        return [*turn, *(node for node in self.registered if node not in self.active)][
            :replication_factor
        ]
