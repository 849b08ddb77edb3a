"""The connections of all nodes, and the timers of the event loop.

This module corresponds to Kafka's SocketServer with its Acceptor and Processor, but uses a single
thread, which runs `EventLoop`. Other threads may only call `call_soon`.
"""

from __future__ import annotations

import logging
import sched
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, cast

from spark_kafka_sink.broker.cluster.nodes import NodeSockets
from spark_kafka_sink.broker.net.client_connection import ClientConnection
from spark_kafka_sink.broker.net.error_log import ErrorLog
from spark_kafka_sink.broker.net.listeners import Listeners
from spark_kafka_sink.broker.net.tls_socket import TlsSocket
from spark_kafka_sink.common.errors import ProtocolError, TlsError
from spark_kafka_sink.common.wakeup import Wakeup
from spark_kafka_sink.kafka.security.acl_commands import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spark_kafka_sink.broker.server_security import ServerSecurity


_LOG = logging.getLogger(__name__)
_RECEIVE_BYTES = 256 * 1024
"""Size of the buffer that all connections share for received bytes."""
_ALERT_S = 1.0
"""Seconds for which a client can read why its handshake failed."""


class SocketServer:
    """The sockets of all nodes: listeners and connections.

    Args:
        listeners: open, non-blocking sockets by node id.
        addresses: host and port by node id, used to listen again when a node restarts.
        security: TLS and SASL of all listeners.
    """

    def __init__(
        self,
        listeners: dict[int, socket.socket],
        addresses: Mapping[int, tuple[str, int]],
        security: ServerSecurity,
    ) -> None:
        self.error_log = ErrorLog(_LOG)
        self._security = security
        self._timers = sched.scheduler(time.monotonic)
        self._selector = selectors.DefaultSelector()
        self._listeners = Listeners(self._selector, listeners, addresses)
        self._sockets: dict[ClientConnection, socket.socket | TlsSocket] = {}
        self.thread = 0
        """The id of the thread that runs the loop, or 0 before the start."""
        self._resumed: dict[ClientConnection, None] = {}
        self._shared = memoryview(bytearray(_RECEIVE_BYTES))
        self._encrypted = memoryview(bytearray(_RECEIVE_BYTES if security.tls else 0))
        self._calls: deque[Callable[[], None]] = deque()
        self._wakeup = Wakeup(self._selector)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run a function on the loop's thread. Thread-safe."""
        self._calls.append(function)
        self._wakeup.wake()

    def deliver(self, function: Callable[[], None]) -> None:
        """Run a function on the loop's thread: now if this is the thread, or else soon."""
        if threading.get_ident() == self.thread:
            function()
        else:
            self.call_soon(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Call a function on the loop's thread after some seconds. Only for this thread."""
        self._timers.enter(seconds, 0, function)

    @property
    def open_connections(self) -> int:
        """Total number of open connections to all nodes."""
        return len(self._sockets)

    def resume(self, connection: ClientConnection) -> None:
        """Schedule a connection to be served without a socket event."""
        self._resumed[connection] = None

    @property
    def has_resumed(self) -> bool:
        """True if `resume` has scheduled a connection."""
        return bool(self._resumed)

    def take_resumed(self) -> Iterator[ClientConnection]:
        """Yield the connections that were scheduled before the iteration started."""
        for connection in list(self._resumed):
            del self._resumed[connection]
            yield connection

    def run_calls(self) -> None:
        """Run the functions passed to `call_soon`."""
        while self._calls:
            self._calls.popleft()()

    def poll(self, timeout: float) -> Iterator[ClientConnection]:
        """Wait for events, accept new connections, read received bytes, and run due timers.

        Yield the connections that can make progress because their socket is readable or writable.
        """
        for key, events in self._selector.select(timeout):
            if isinstance(key.data, ClientConnection):
                if key.data.is_closed:
                    continue
                if events & selectors.EVENT_READ and not self._receive_once(key.data):
                    self.close(key.data)
                else:
                    yield key.data
            elif key.data is None:
                self._wakeup.drain()
            else:
                self._accept_connection(key.data)
        self._listeners.resume_paused()
        self._timers.run(blocking=False)

    def is_served(self, connection: ClientConnection) -> bool:
        """Return True if a connection is open and its node is not paused."""
        return not connection.is_closed and not self._listeners.is_muted(connection.node)

    def flush(self, connection: ClientConnection) -> None:
        """Send as much as possible, update the registered events, and close if finished."""
        if not self._send_responses(connection) or connection.is_finished:
            self.close(connection)
            return
        events = selectors.EVENT_READ if connection.wants_input else 0
        if connection.unsent or (connection.is_encrypted and self._has_unsent(connection)):
            events |= selectors.EVENT_WRITE
        self._register_events(connection, events)

    def close(self, connection: ClientConnection) -> None:
        """Close a connection. Has no effect if it is already closed."""
        if connection.is_closed:
            return
        connection.is_closed = True
        self._register_events(connection, 0)
        self._sockets.pop(connection).close()

    @property
    def node_sockets(self) -> NodeSockets:
        """The functions that close, open, mute and unmute nodes."""
        return NodeSockets(
            self._close_node, self._listeners.open, self._mute_node, self._unmute_node
        )

    def close_all(self) -> None:
        """Close every socket."""
        for connection in list(self._sockets):
            self.close(connection)
        self._listeners.close_all()
        self._wakeup.close()
        self._selector.close()

    def _accept_connection(self, node: int) -> None:
        try:
            accepted = self._listeners.accept(node)
        except OSError as error:
            self.error_log.log(
                logging.WARNING,
                ("accept", error.errno),
                "cannot accept a connection: %s (%d connections are open)",
                error.strerror,
                len(self._sockets),
            )
            return
        if accepted is None:
            return
        client, host = accepted
        client.setblocking(False)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:  # Some systems raise it if the client has reset the connection.
            _LOG.debug("lost connection %s: %s", host, error)
            client.close()
            return
        connection = ClientConnection(node, f"/{host}")
        self._sockets[connection] = client
        if self._security.is_open:
            self._register_events(connection, selectors.EVENT_READ)
        else:
            self._start_security(connection, client)

    def _start_security(self, connection: ClientConnection, client: socket.socket) -> None:
        """Start TLS or SASL on a new connection, with a total time limit for both."""
        tls = self._security.tls
        if tls is not None:
            self._sockets[connection] = TlsSocket(client, tls.context, self._encrypted)
        authenticator = self._security.new_authenticator()
        connection.begin_securely(authenticator, is_encrypted=tls is not None)
        self._register_events(connection, selectors.EVENT_READ)
        seconds = self._security.config.handshake_timeout_ms / 1000
        self.call_later(seconds, lambda: self._check_secured(connection))

    def _check_secured(self, connection: ClientConnection) -> None:
        client = self._sockets.get(connection)
        authenticator = connection.authenticator
        if isinstance(client, TlsSocket) and not client.is_ready:
            self.error_log.log_disconnect(connection, "TLS handshake timed out")
            self.close(connection)
        elif client is not None and authenticator is not None and authenticator.user is None:
            self.error_log.log_disconnect(connection, "authentication timed out")
            self.close(connection)

    def _receive_once(self, connection: ClientConnection) -> bool:
        """Read once from a connection. Return False if the connection must be closed."""
        client = self._sockets[connection]
        try:
            room = connection.room(self._shared)
            count = client.recv_into(room)
            connection.add_received(room, count)
            if connection.is_encrypted:
                count = self._receive_rest(connection, cast("TlsSocket", client), count)
        except BlockingIOError:
            return True
        except ProtocolError as error:
            self.error_log.log_disconnect(connection, error)
            return False
        except TlsError as error:
            self.error_log.log_disconnect(connection, error)
            self._close_later(connection, cast("TlsSocket", client))
            return True
        except OSError as error:
            _LOG.debug("lost connection %s: %s", connection.peer, error)
            return False
        return count > 0

    def _receive_rest(self, connection: ClientConnection, client: TlsSocket, count: int) -> int:
        """Read all bytes buffered by TLS, for which the selector reports no event."""
        if connection.user is None and connection.authenticator is None:
            connection.user = client.principal or ANONYMOUS
        while count and client.has_more:
            room = connection.room(self._shared)
            count = client.recv_into(room)
            connection.add_received(room, count)
        return count

    def _close_later(self, connection: ClientConnection, client: TlsSocket) -> None:
        """Close a connection after a delay, so that the client can read the TLS alert.

        Closing a socket with unread input would discard the alert.
        """
        client.close_write()
        self.call_later(_ALERT_S, lambda: self.close(connection))

    def _send_responses(self, connection: ClientConnection) -> bool:
        client = self._sockets[connection]
        try:
            while connection.unsent:
                parts = connection.to_send()
                sent = client.send(parts[0]) if len(parts) == 1 else client.sendmsg(parts)
                connection.drop_sent(sent)
        except BlockingIOError:
            return True
        except OSError as error:
            _LOG.debug("lost connection %s: %s", connection.peer, error)
            return False
        return True

    def _has_unsent(self, connection: ClientConnection) -> bool:
        client = self._sockets[connection]
        return isinstance(client, TlsSocket) and client.has_unsent

    def _register_events(self, connection: ClientConnection, events: int) -> None:
        if events == connection.registered_events:
            return
        client = self._sockets[connection]
        if not events:
            self._selector.unregister(client)
        elif not connection.registered_events:
            self._selector.register(client, events, connection)
        else:
            self._selector.modify(client, events, connection)
        connection.registered_events = events

    def _close_node(self, node: int) -> None:
        self._listeners.close(node)
        for connection in self._connections_of(node):
            self.close(connection)

    def _mute_node(self, node: int) -> None:
        self._listeners.mute(node)
        for connection in self._connections_of(node):
            self._register_events(connection, 0)

    def _unmute_node(self, node: int) -> None:
        self._listeners.unmute(node)
        for connection in self._connections_of(node):
            self.resume(connection)

    def _connections_of(self, node: int) -> list[ClientConnection]:
        return [connection for connection in self._sockets if connection.node == node]
