"""The event loop: sockets in, sockets out, one thread that owns all state."""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.net.connection import Connection
from spark_kafka_sink.broker.net.dispatcher import Dispatcher, gets_no_answer
from spark_kafka_sink.broker.net.error_log import ErrorLog
from spark_kafka_sink.broker.net.loop_sockets import LoopSockets
from spark_kafka_sink.broker.net.repeat_log import RepeatLog
from spark_kafka_sink.broker.net.request_handler import RequestHandler
from spark_kafka_sink.broker.net.response_channel import Network
from spark_kafka_sink.common.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.handlers.request_context import RequestContext
    from spark_kafka_sink.broker.net.response_channel import ResponseChannel

LOG = logging.getLogger(__name__)
RECEIVE: Final = 256 * 1024
TICK_SECONDS: Final = 0.1
BACKLOG: Final = 512
REST_SECONDS: Final = 0.2
"""Without a free file descriptor, so long nobody is accepted."""
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; OSError if the port is taken."""
    listener = socket.create_server((host, port), backlog=BACKLOG)
    listener.setblocking(False)
    return listener


class Server:
    """Serves the connections of all nodes until it is told to stop.

    `call_soon` and `stop` may be called from other threads; all else belongs to the loop.
    """

    def __init__(self, cluster: Cluster, listeners: dict[int, socket.socket]) -> None:
        self._cluster = cluster
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[Connection, socket.socket] = {}
        self._answered: deque[Connection] = deque()
        self._calls: deque[Callable[[], None]] = deque()
        self._shared = memoryview(bytearray(RECEIVE))
        self._log = RepeatLog(LOG)
        self._error_log = ErrorLog(self._log)
        self._thread = 0
        self._requests: RequestHandler | None = None
        if cluster.state_lock is not None:
            self._requests = RequestHandler(cluster, cluster.state_lock)
        network = Network(
            answered=self._answered.append,
            deliver=self._deliver,
            error_log=self._error_log,
        )
        self._dispatcher = Dispatcher(cluster, network)
        self._resting: dict[int, float] = {}
        self._stopping = False
        self._listeners = listeners
        self._muted: set[int] = set()
        cluster.node_control.sockets = (
            self
            if cluster.state_lock is None
            else LoopSockets(self, self._on_loop, cluster.state_lock)
        )
        cluster.call_soon = self.call_soon
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        for node, listener in listeners.items():
            self._selector.register(listener, selectors.EVENT_READ, node)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run a function on the thread that owns the cluster's state."""
        if self._requests is not None:
            self._requests.submit(function)
        else:
            self._on_loop(function)

    def _deliver(self, function: Callable[[], None]) -> None:
        if self._requests is None or threading.get_ident() == self._thread:
            function()
        else:
            self._on_loop(function)

    def _on_loop(self, function: Callable[[], None]) -> None:
        self._calls.append(function)
        self._wake()

    def stop(self) -> None:
        """End the loop soon."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        try:
            self._wake_in.send(b"\0")
        except OSError:  # Full: it is awake anyway. Closed: it has ended.
            LOG.debug("the broker's loop needs no waking")

    def run(self) -> None:
        """Serve until `stop`; then close every socket."""
        self._thread = threading.get_ident()
        if self._requests is not None:
            self._requests.start()
        try:
            while not self._stopping:
                self._safe_turn()
        finally:
            if self._requests is not None:
                self._requests.stop()
            self._close_all()

    def _safe_turn(self) -> None:
        try:
            self._turn()
        except Exception:
            LOG.exception("the broker's loop goes on after an error")
            time.sleep(TICK_SECONDS)

    def _turn(self) -> None:
        for key, events in self._selector.select(self._timeout()):
            if isinstance(key.data, Connection):
                self._serve(key.data, events)
            elif key.data is None:
                self._drain_wakes()
            else:
                self._accept(key.fileobj, key.data)
        if self._resting:
            self._wake_listeners()
        while self._calls:
            self._calls.popleft()()
        if self._requests is None:
            self._cluster.tick()
        while self._answered:
            self._advance(self._answered.popleft())

    def _timeout(self) -> float:
        deadline = None if self._requests is not None else self._cluster.next_deadline()
        if deadline is None:
            return TICK_SECONDS
        return min(TICK_SECONDS, max(0.0, deadline - self._cluster.clock.monotonic()))

    def _drain_wakes(self) -> None:
        try:
            while self._wake_out.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _accept(self, listener: object, node: int) -> None:
        if not isinstance(listener, socket.socket):
            return
        try:
            client, address = listener.accept()
        except OSError as error:
            self._not_accepted(node, error)
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(node, f"/{address[0]}")
        self._sockets[connection] = client
        self._watch(connection, selectors.EVENT_READ)

    def _not_accepted(self, node: int, error: OSError) -> None:
        """Gone before it was accepted, or no file descriptor is left: then wait for one."""
        self._log.say(
            logging.WARNING,
            ("accept", error.errno),
            "a connection was not accepted: %s (%d are open)",
            error.strerror,
            len(self._sockets),
        )
        if error.errno in _NO_ROOM:
            self._selector.unregister(self._listeners[node])
            self._resting[node] = time.monotonic() + REST_SECONDS

    def _wake_listeners(self) -> None:
        """Listen again where no connection could be accepted a moment ago."""
        now = time.monotonic()
        for node in [node for node, until in self._resting.items() if until <= now]:
            del self._resting[node]
            self._selector.register(self._listeners[node], selectors.EVENT_READ, node)

    def _serve(self, connection: Connection, events: int) -> None:
        if connection.closed:
            return
        if events & selectors.EVENT_READ and not self._receive(connection):
            self._close(connection)
            return
        self._advance(connection)

    def _receive(self, connection: Connection) -> bool:
        """Read once; False when the connection has to end."""
        try:
            room = connection.room(self._shared)
            count = self._sockets[connection].recv_into(room)
            connection.received(room, count)
        except BlockingIOError:
            return True
        except ProtocolError as error:
            self._error_log.disconnected(connection, error)
            return False
        except OSError as error:
            LOG.debug("%s has gone: %s", connection.peer, error)
            return False
        return count > 0

    def _advance(self, connection: Connection) -> None:
        """Serve what is there, send what can be sent, and wait for what is missing."""
        if connection.closed or connection.node in self._muted:
            return
        served = self._answer_all(connection)
        if connection.closed or connection.node in self._muted:
            return
        if not served or not self._send(connection) or connection.is_finished:
            self._close(connection)
            return
        events = selectors.EVENT_READ if connection.wants_input else 0
        events |= selectors.EVENT_WRITE if connection.unsent else 0
        self._watch(connection, events)

    def _answer_all(self, connection: Connection) -> bool:
        while (frame := connection.next_request()) is not None:
            try:
                request = self._dispatcher.read(frame, connection)
                if request is not None:
                    self._dispatch(connection, *request)
            except Exception as error:  # noqa: BLE001 - one client's request ends no other's
                self._failed(connection, error)
                return False
        return True

    def _dispatch(
        self, connection: Connection, channel: ResponseChannel, context: RequestContext
    ) -> None:
        lock = self._cluster.state_lock
        if self._requests is None or lock is None:
            self._dispatcher.serve(channel, context)
        elif self._dispatcher.needs_logs(channel, context):
            if gets_no_answer(channel.api, context) and self._requests.has_room:
                channel.let_go()
            self._requests.submit(lambda: self._serve_beside(connection, channel, context))
        else:
            with lock:
                self._dispatcher.serve(channel, context)

    def _serve_beside(
        self, connection: Connection, channel: ResponseChannel, context: RequestContext
    ) -> None:
        """Serve a request on the thread of requests, and tell the loop."""
        try:
            self._dispatcher.serve(channel, context)
        except Exception as error:  # noqa: BLE001 - one client's request ends no other's
            self._failed(connection, error)
            self._on_loop(lambda: self._close(connection))
        else:
            self._on_loop(lambda: self._answered.append(connection))

    def _failed(self, connection: Connection, error: Exception) -> None:
        if isinstance(error, ProtocolError):
            self._error_log.disconnected(connection, error)
        elif isinstance(error, OSError):
            self._error_log.disconnected(connection, f"the storage failed its request: {error}")
        else:
            LOG.error("a request of %s failed", connection.peer, exc_info=error)

    def _send(self, connection: Connection) -> bool:
        client = self._sockets[connection]
        try:
            while connection.unsent:
                connection.sent(client.sendmsg(connection.to_send()))
        except BlockingIOError:
            return True
        except OSError as error:
            LOG.debug("%s has gone: %s", connection.peer, error)
            return False
        return True

    def _watch(self, connection: Connection, events: int) -> None:
        if events == connection.watched:
            return
        client = self._sockets[connection]
        if not events:
            self._selector.unregister(client)
        elif not connection.watched:
            self._selector.register(client, events, connection)
        else:
            self._selector.modify(client, events, connection)
        connection.watched = events

    def _close(self, connection: Connection) -> None:
        if connection.closed:
            return
        connection.closed = True
        self._watch(connection, 0)
        self._sockets.pop(connection).close()

    def close_node(self, node: int) -> None:
        """See `NodeSockets`."""
        listener = self._listeners.pop(node)
        if node not in self._muted and self._resting.pop(node, None) is None:
            self._selector.unregister(listener)
        self._muted.discard(node)
        listener.close()
        for connection in self._connections_of(node):
            self._close(connection)

    def open_node(self, node: int) -> None:
        """See `NodeSockets`."""
        self._listeners[node] = listen(*self._cluster.node(node).bound)
        self._selector.register(self._listeners[node], selectors.EVENT_READ, node)

    def mute_node(self, node: int) -> None:
        """See `NodeSockets`."""
        self._muted.add(node)
        if self._resting.pop(node, None) is None:
            self._selector.unregister(self._listeners[node])
        for connection in self._connections_of(node):
            self._watch(connection, 0)

    def unmute_node(self, node: int) -> None:
        """See `NodeSockets`."""
        self._muted.discard(node)
        self._selector.register(self._listeners[node], selectors.EVENT_READ, node)
        self._answered.extend(self._connections_of(node))

    def _connections_of(self, node: int) -> list[Connection]:
        return [connection for connection in self._sockets if connection.node == node]

    def _close_all(self) -> None:
        for connection in list(self._sockets):
            self._close(connection)
        for listener in self._listeners.values():
            listener.close()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._wake_in.close()
        self._selector.close()
