"""Stopping, starting, pausing and resuming nodes while the cluster runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.broker.cluster.node_states import NodeState
from spark_kafka_sink.common.errors import KafkaProdError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.elections import Elections
    from spark_kafka_sink.broker.cluster.node_states import NodeStates
    from spark_kafka_sink.common.clock import Clock


class NodeSockets(Protocol):
    """Operations on the sockets of one node."""

    def close_node(self, node: int) -> None:
        """Stop listening, and close the node's connections."""
        ...

    def open_node(self, node: int) -> None:
        """Listen again on the same port."""
        ...

    def mute_node(self, node: int) -> None:
        """Keep all connections open, but stop reading and writing."""
        ...

    def unmute_node(self, node: int) -> None:
        """Resume reading and writing."""
        ...


class NodeControl:
    """Stops, starts and pauses nodes.

    Args:
        nodes: the states of the nodes, which this class updates.
        elections: moves leaderships away from nodes and back.
        sockets: opens, closes and mutes the nodes' sockets.
        clock: determines when a paused node's session ends.
        changed: called when the set of active nodes has changed.
    """

    __slots__ = ("_changed", "_clock", "_elections", "_nodes", "_sockets")

    def __init__(
        self,
        nodes: NodeStates,
        elections: Elections,
        sockets: NodeSockets,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._nodes = nodes
        self._elections = elections
        self._clock = clock
        self._changed = changed
        self._sockets = sockets

    def stop(self, node: int) -> None:
        """Stop a node: its connections are closed and its leaderships move; its data is kept."""
        if self._state(node) is NodeState.STOPPED:
            return
        self._nodes.stop(node)
        self._sockets.close_node(node)
        self._changed()
        self._elections.node_lost(node)

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
        self._changed()
        self._elections.node_back()

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
            self._changed()
            self._elections.node_lost(node)

    def _state(self, node: int) -> NodeState:
        if node not in self._nodes:
            raise KafkaProdError(f"there is no node {node}", hint="Nodes are numbered from 1")
        return self._nodes[node].state
