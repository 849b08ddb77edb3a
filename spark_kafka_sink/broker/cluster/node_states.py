"""Which nodes of a cluster are up, paused, stopped or fenced, and how far their replicas lag.

As Kafka's controller tracks brokers: a node that hangs is fenced when its session ends (KIP-631).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class NodeState(Enum):
    """Whether a node is running."""

    UP = auto()
    PAUSED = auto()
    STOPPED = auto()


@dataclass(slots=True, kw_only=True)
class NodeStatus:
    """The state of a node.

    `lag` is the delay of its replication in seconds. `fence_at` is the end of a paused node's
    session in monotonic seconds.
    """

    state: NodeState = NodeState.UP
    lag: float = 0.0
    fenced: bool = False
    fence_at: float | None = None

    @property
    def fetches(self) -> bool:
        """True if the node fetches from leaders."""
        return self.state is NodeState.UP

    @property
    def is_active(self) -> bool:
        """True if the node may lead partitions and be in sync."""
        return self.state is not NodeState.STOPPED and not self.fenced


class NodeStates:
    """The states of all nodes, by id."""

    __slots__ = ("_nodes", "_session")

    def __init__(self, ids: list[int], lag: float, session: float) -> None:
        self._nodes = {node: NodeStatus(lag=lag) for node in ids}
        self._session = session

    def __getitem__(self, node: int) -> NodeStatus:
        return self._nodes[node]

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def active(self) -> list[int]:
        """Return the ids of the nodes that may lead."""
        return [node for node, status in self._nodes.items() if status.is_active]

    def set_lags(self, seconds: float) -> None:
        """Set the replication delay of every node, in seconds."""
        for status in self._nodes.values():
            status.lag = seconds

    def stop(self, node: int) -> None:
        """Mark a node as stopped."""
        self._nodes[node].state = NodeState.STOPPED
        self._nodes[node].fence_at = None

    def pause(self, node: int, now: float) -> None:
        """Mark a node as paused; it is fenced when its session ends."""
        self._nodes[node].state = NodeState.PAUSED
        self._nodes[node].fence_at = now + self._session

    def start(self, node: int) -> None:
        """Mark a node as up."""
        status = self._nodes[node]
        status.state, status.fenced, status.fence_at = NodeState.UP, False, None

    def fence(self, now: float) -> list[int]:
        """Fence the nodes whose session has ended, and return their ids."""
        due = [n for n, s in self._nodes.items() if s.fence_at is not None and s.fence_at <= now]
        for node in due:
            self._nodes[node].fenced, self._nodes[node].fence_at = True, None
        return due

    def next_fence(self) -> float | None:
        """Return when the next session ends, in monotonic seconds, or None if no node is paused."""
        return min(
            (s.fence_at for s in self._nodes.values() if s.fence_at is not None), default=None
        )
