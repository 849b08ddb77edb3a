"""The broker's event loop, which receives requests, dispatches them and sends responses.

`EventLoop` runs the loop. With a local storage, requests are handled on the loop's thread. With a
remote storage, requests that might wait for the storage run on a second thread (`RequestThread`).
`thread_safe_sockets` allows this second thread to close, open, mute and unmute nodes.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.broker.cluster.nodes import NodeSockets
from spark_kafka_sink.broker.net.dispatcher import Dispatcher
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.handlers.request_context import RequestContext
    from spark_kafka_sink.broker.net.client_connection import ClientConnection
    from spark_kafka_sink.broker.net.request_thread import RequestThread
    from spark_kafka_sink.broker.net.response_channel import RequestInjector, ResponseChannel
    from spark_kafka_sink.broker.net.socket_server import SocketServer
    from spark_kafka_sink.broker.storage.state_lock import StateLock


T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_CALL_TIMEOUT_S = 10.0
"""Seconds that other threads wait for a function that the loop's thread runs."""
_MAX_WAIT_S = 0.1
"""Longest wait for the sockets in seconds, so that timers are checked."""
_WITHOUT_STORAGE_ACCESS = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.METADATA,
    }
)
"""APIs whose requests do not access the storage."""
MAX_REQUESTS_PER_TURN = 64
"""Maximum number of requests of a connection per turn, to be fair to other connections."""


def run_on(submit: Callable[[Callable[[], None]], None], function: Callable[[], T]) -> Future[T]:
    """Run a function on another thread. `submit` passes functions to this thread."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    submit(run)
    return future


def thread_safe_sockets(sockets: SocketServer, lock: StateLock) -> NodeSockets:
    """Return functions that run on the loop's thread, and wait until they return.

    `lock` is the lock on the cluster's state. It is released during the wait, because the loop
    might need it.
    """

    def call(function: Callable[[int], None], node: int) -> None:
        done = run_on(sockets.call_soon, lambda: function(node))
        with lock.released():
            done.result(_CALL_TIMEOUT_S)

    return NodeSockets(*(partial(call, function) for function in sockets.node_sockets))


@dataclass(slots=True, eq=False)
class EventLoop:
    """Serves the connections of all nodes until `stop` is called.

    `stop` is thread-safe. All other methods are only for the thread that runs the loop. This thread
    also owns the cluster's state unless there is a second thread for requests.
    """

    _cluster: Cluster
    _sockets: SocketServer
    """The sockets of all nodes."""
    _requests: RequestThread | None
    """The thread for requests that might wait for a storage; None to handle all requests on the
    loop's thread.
    """
    _injector: RequestInjector
    """Applies faults to requests before their handlers."""
    _dispatcher: Dispatcher = field(init=False)
    _is_stopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._dispatcher = Dispatcher(self._cluster, self._sockets)

    def stop(self) -> None:
        """Stop the loop, without waiting until it has stopped."""
        self._is_stopping = True
        self._sockets.call_soon(lambda: None)

    def run(self) -> None:
        """Serve until `stop` is called, then close all sockets."""
        self._sockets.thread = threading.get_ident()
        try:
            while not self._is_stopping:
                self._run_safe_turn()
        finally:
            if self._requests is not None:
                self._requests.stop()
            self._sockets.close_all()

    def _run_safe_turn(self) -> None:
        try:
            self._run_turn()
        except Exception:  # noqa: BLE001 the thread must survive
            _LOG.exception("error in the broker's event loop")
            time.sleep(_MAX_WAIT_S)

    def _run_turn(self) -> None:
        sockets = self._sockets
        for connection in sockets.poll(self._poll_timeout()):
            self._serve_connection(connection)
        sockets.run_calls()
        if self._requests is None:
            self._cluster.tick()
        for connection in sockets.take_resumed():
            self._serve_connection(connection)

    def _poll_timeout(self) -> float:
        if self._sockets.has_resumed:
            return 0.0
        deadline = None if self._requests is not None else self._cluster.next_deadline()
        if deadline is None:
            return _MAX_WAIT_S
        return min(_MAX_WAIT_S, max(0.0, deadline - self._cluster.clock.monotonic()))

    def _serve_connection(self, connection: ClientConnection) -> None:
        """Serve some of the connection's pending requests and send as much as possible."""
        sockets = self._sockets
        if not sockets.is_served(connection):
            return
        served = self._serve_requests(connection)
        if not sockets.is_served(connection):
            return
        if served:
            sockets.flush(connection)
            if connection.backlog and connection.can_serve:
                sockets.resume(connection)
        else:
            sockets.close(connection)

    def _serve_requests(self, connection: ClientConnection) -> bool:
        for _ in range(MAX_REQUESTS_PER_TURN):
            frame = connection.take_request()
            if frame is None:
                break
            try:
                request = self._dispatcher.decode(frame, connection)
                if request is not None:
                    self._dispatch_request(connection, *request)
            except Exception as error:  # noqa: BLE001 - other clients must not be affected
                self._sockets.error_log.log_failure(connection, error)
                return False
        return True

    def _dispatch_request(
        self, connection: ClientConnection, channel: ResponseChannel, context: RequestContext
    ) -> None:
        requests = self._requests
        if requests is None:
            self._injector.serve(channel, context)
        elif self._may_wait_for_storage(context):
            has_no_response = context.api == ApiKey.PRODUCE and context.request.acks == 0
            if has_no_response and requests.has_room:
                channel.release()
            requests.submit(lambda: self._serve_on_thread(connection, channel, context))
        else:
            with requests.lock:
                self._injector.serve(channel, context)

    def _may_wait_for_storage(self, context: RequestContext) -> bool:
        """Return True if a request might wait for the storage.

        Requests for cluster metadata never wait, except for Metadata requests for unknown topics,
        because they can create topics.
        """
        if context.api not in _WITHOUT_STORAGE_ACCESS or self._injector.is_active:
            return True
        topics = self._cluster.topics
        requested = context.get("topics", None) if context.api == ApiKey.METADATA else None
        return any(topics.named(item.name) is None for item in requested or ())

    def _serve_on_thread(
        self, connection: ClientConnection, channel: ResponseChannel, context: RequestContext
    ) -> None:
        """Serve a request on the second thread, then resume or close its connection."""
        try:
            self._injector.serve(channel, context)
        except Exception as error:  # noqa: BLE001 - other clients must not be affected
            self._sockets.error_log.log_failure(connection, error)
            self._sockets.call_soon(lambda: self._sockets.close(connection))
        else:
            self._sockets.call_soon(lambda: self._sockets.resume(connection))
