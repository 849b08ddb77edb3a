"""The nodes of a cluster, their states, and the operations that change them.

As in Kafka, a node that hangs is fenced when its session expires (KIP-631).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import KafkaProdError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.broker.config.broker_config import BrokerConfig
    from spark_kafka_sink.common.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """A broker of the cluster, with its advertised host and port."""

    id: int
    host: str
    port: int
    bound: tuple[str, int] = ("", 0)
    """The address on which the broker listens."""


class RunState(Enum):
    """The run state of a node."""

    UP = auto()
    PAUSED = auto()
    FENCED = auto()
    """Paused for longer than the session timeout."""
    STOPPED = auto()


@dataclass(slots=True, kw_only=True)
class NodeState:
    """The state of a node."""

    run_state: RunState = RunState.UP
    lag: float = 0.0
    """The replication delay in seconds."""
    fence_at: float = inf
    """Monotonic time in seconds at which a paused node's session expires."""

    @property
    def fetches(self) -> bool:
        """True if the node fetches from leaders."""
        return self.run_state is RunState.UP

    @property
    def is_active(self) -> bool:
        """True if the node can lead partitions and be in sync."""
        return self.run_state in {RunState.UP, RunState.PAUSED}


class NodeSockets(NamedTuple):
    """Functions for the sockets of a node."""

    close: Callable[[int], None]
    """Closes the node's listening socket and all its connections."""
    open: Callable[[int], None]
    """Listens again on the node's port."""
    mute: Callable[[int], None]
    """Stops reading and writing on the node's connections without closing them."""
    unmute: Callable[[int], None]
    """Resumes reading and writing on the node's connections."""


class NodeControl(dict[int, NodeState]):
    """The states of all nodes, by id. Stops, starts and pauses nodes.

    Args:
        nodes: the ids of all nodes.
        config: the replication delay and the session timeout.
        sockets: opens, closes and mutes the nodes' sockets.
        clock: measures the sessions of paused nodes.
        on_lost: called with a node that is no longer active.
        on_started: called when a node is active again.
    """

    def __init__(
        self,
        nodes: Iterable[int],
        *,
        config: BrokerConfig,
        sockets: NodeSockets,
        clock: Clock,
        on_lost: Callable[[int], None],
        on_started: Callable[[], None],
    ) -> None:
        lag = config.follower_lag_ms / 1000
        super().__init__({node: NodeState(lag=lag) for node in sorted(nodes)})
        self._sockets = sockets
        self._clock = clock
        self._session = config.session_timeout_ms / 1000
        self._on_lost = on_lost
        self._on_started = on_started

    def active(self) -> list[int]:
        """Return the ids of the nodes that can lead partitions."""
        return [node for node, node_state in self.items() if node_state.is_active]

    def next_fence(self) -> float:
        """Return the time in monotonic seconds at which the next session expires."""
        return min(node_state.fence_at for node_state in self.values())

    def stop(self, node: int) -> None:
        """Stop a node: close its connections and elect other leaders. Its data is retained."""
        node_state = self._node_state(node)
        if node_state.run_state is not RunState.STOPPED:
            node_state.run_state = RunState.STOPPED
            node_state.fence_at = inf
            self._sockets.close(node)
            self._on_lost(node)

    def start(self, node: int) -> None:
        """Start a stopped or paused node. It must catch up before it is in sync again."""
        node_state = self._node_state(node)
        if node_state.run_state is RunState.UP:
            return
        if node_state.run_state is RunState.STOPPED:
            self._sockets.open(node)
        else:
            self._sockets.unmute(node)
        node_state.run_state = RunState.UP
        node_state.fence_at = inf
        self._on_started()

    def pause(self, node: int) -> None:
        """Pause a node: its connections stay open, but it does not respond to requests."""
        node_state = self._node_state(node)
        if node_state.run_state is RunState.UP:
            node_state.run_state = RunState.PAUSED
            node_state.fence_at = self._clock.monotonic() + self._session
            self._sockets.mute(node)

    def set_lag(self, node: int, seconds: float) -> None:
        """Delay a follower's replication by this many seconds."""
        self._node_state(node).lag = max(0.0, seconds)

    def set_all_lags(self, seconds: float) -> None:
        """Delay the replication of every node by this many seconds."""
        for node in self:
            self.set_lag(node, seconds)

    def tick(self, now: float) -> None:
        """Fence the nodes that have been paused for longer than the session timeout."""
        due = [node for node, node_state in self.items() if node_state.fence_at <= now]
        for node in due:
            self[node].run_state = RunState.FENCED
            self[node].fence_at = inf
        for node in due:
            self._on_lost(node)

    def _node_state(self, node: int) -> NodeState:
        if node not in self:
            raise KafkaProdError(f"node {node} does not exist", hint="Node ids start at 1.")
        return self[node]
