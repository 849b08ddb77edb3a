"""The placement of the replicas of partitions on nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True, slots=True)
class ReplicaPlacer:
    """Chooses and checks the nodes of replicas."""

    registered: Sequence[int]
    """All nodes of the cluster."""
    active: Collection[int]
    """The nodes that can lead partitions."""

    def problem_with(self, replicas: Sequence[int], size: int | None) -> str | None:
        """Return why a partition cannot have these replicas, or None if it can.

        `size` is the expected number of replicas, or None to skip this check.
        """
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
        """Return why a new partition cannot have these replicas, or None if it can.

        At least one replica of a new partition must be active.
        """
        problem = self.problem_with(replicas, size)
        if problem is None and not self.active_of(replicas):
            return "All brokers specified in the manual partition assignment are fenced."
        return problem

    def active_of(self, replicas: Sequence[int]) -> list[int]:
        """Return the replicas that are on active nodes."""
        return [node for node in replicas if node in self.active]

    def assign(self, index: int, replication_factor: int) -> list[int]:
        """Return a partition's replicas: active nodes in turn, and inactive nodes if necessary."""
        active = [node for node in self.registered if node in self.active]
        turn = [active[(index + step) % len(active)] for step in range(len(active))]
        return [*turn, *(node for node in self.registered if node not in self.active)][
            :replication_factor
        ]
