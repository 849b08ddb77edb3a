"""Sockets of nodes for those who are not on the event loop's thread: asked there, waited for here.

Used where requests are handled beside the loop.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.node_control import NodeSockets
    from spark_kafka_sink.broker.state_lock import StateLock

LONGEST_SECONDS: Final = 10.0


class LoopSockets:
    """`NodeSockets` whose calls are made on the loop's thread.

    Args:
        sockets: those of the server.
        on_loop: runs a function on the loop's thread.
        lock: on the cluster's state; let go of meanwhile, as the loop may want it.
    """

    __slots__ = ("_lock", "_on_loop", "_sockets")

    def __init__(
        self,
        sockets: NodeSockets,
        on_loop: Callable[[Callable[[], None]], None],
        lock: StateLock,
    ) -> None:
        self._sockets = sockets
        self._on_loop = on_loop
        self._lock = lock

    def close_node(self, node: int) -> None:
        """See `NodeSockets`."""
        self._call(lambda: self._sockets.close_node(node))

    def open_node(self, node: int) -> None:
        """See `NodeSockets`."""
        self._call(lambda: self._sockets.open_node(node))

    def mute_node(self, node: int) -> None:
        """See `NodeSockets`."""
        self._call(lambda: self._sockets.mute_node(node))

    def unmute_node(self, node: int) -> None:
        """See `NodeSockets`."""
        self._call(lambda: self._sockets.unmute_node(node))

    def _call(self, function: Callable[[], None]) -> None:
        done: Future[None] = Future()

        def run() -> None:
            try:
                function()
                done.set_result(None)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller's thread
                done.set_exception(error)

        self._on_loop(run)
        with self._lock.released():
            done.result(LONGEST_SECONDS)
