"""The nodes of a cluster: which are up, paused, stopped or fenced, and how to change that.

As Kafka's controller tracks brokers: a node that hangs is fenced when its session ends (KIP-631).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.errors import KafkaProdError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.clock import Clock


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


class NodeSockets(Protocol):
    """Operations on the sockets of one node."""

    def close_node(self, node: int) -> None:
        """Stop listening, and close the node's connections."""

    def open_node(self, node: int) -> None:
        """Listen again on the same port."""

    def mute_node(self, node: int) -> None:
        """Keep all connections open, but stop reading and writing."""

    def unmute_node(self, node: int) -> None:
        """Resume reading and writing."""


class NodeControl:
    """Stops, starts and pauses nodes.

    Args:
        nodes: the states of the nodes, which this class updates.
        sockets: opens, closes and mutes the nodes' sockets.
        clock: determines when a paused node's session ends.
        on_lost: called with a node that is no longer active.
        on_started: called when a node is active again.
    """

    def __init__(
        self,
        nodes: NodeStates,
        sockets: NodeSockets,
        clock: Clock,
        on_lost: Callable[[int], None],
        on_started: Callable[[], None],
    ) -> None:
        self._nodes = nodes
        self._sockets = sockets
        self._clock = clock
        self._on_lost = on_lost
        self._on_started = on_started

    def stop(self, node: int) -> None:
        """Stop a node: its connections are closed and its leaderships move; its data is kept."""
        if self._state(node) is NodeState.STOPPED:
            return
        self._nodes.stop(node)
        self._sockets.close_node(node)
        self._on_lost(node)

    def start(self, node: int) -> None:
        """Start a stopped or paused node; it must catch up before it is in sync again."""
        state = self._state(node)
        if state is NodeState.UP:
            return
        if state is NodeState.PAUSED:
            self._sockets.unmute_node(node)
        else:
            self._sockets.open_node(node)
        self._nodes.start(node)
        self._on_started()

    def pause(self, node: int) -> None:
        """Pause a node: its connections stay open, but no request is answered."""
        if self._state(node) is not NodeState.UP:
            return
        self._nodes.pause(node, self._clock.monotonic())
        self._sockets.mute_node(node)

    def set_lag(self, node: int, seconds: float) -> None:
        """Delay a follower's replication by this many seconds."""
        self._state(node)
        self._nodes[node].lag = max(0.0, seconds)

    def set_all_lags(self, seconds: float) -> None:
        """Delay the replication of every node by this many seconds."""
        self._nodes.set_lags(max(0.0, seconds))

    def tick(self, now: float) -> None:
        """Fence the nodes that have been paused for longer than the session timeout."""
        for node in self._nodes.fence(now):
            self._on_lost(node)

    def _state(self, node: int) -> NodeState:
        if node not in self._nodes:
            raise KafkaProdError(f"node {node} does not exist", hint="Nodes are numbered from 1")
        return self._nodes[node].state
