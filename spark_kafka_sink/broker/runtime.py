"""`BrokerRuntime`: the state, sockets and threads of a running broker."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.cluster.cluster import Cluster, JumpingClock, Node
from spark_kafka_sink.broker.config import LOG, BrokerConfig, advertised
from spark_kafka_sink.broker.faults import FaultInjector, Faults
from spark_kafka_sink.broker.net.dispatcher import RequestHandler
from spark_kafka_sink.broker.net.server import LoopSockets, Server
from spark_kafka_sink.broker.net.socket_server import SocketServer, listen
from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory
from spark_kafka_sink.broker.redis.storage import RedisBackend
from spark_kafka_sink.broker.state_lock import StateLock
from spark_kafka_sink.broker.storage.data_dir import DataDir
from spark_kafka_sink.broker.storage.segmented_storage import MemoryBackend
from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import BrokerUnavailableError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.nodes import NodeSockets
    from spark_kafka_sink.broker.security.acl import Denials
    from spark_kafka_sink.broker.security.server_security import ServerSecurity
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend
    from spark_kafka_sink.broker.topic_partition import TopicPartition

STOP_SECONDS: Final = 10.0


class BrokerRuntime:
    """A listening broker, which serves requests from `start` to `stop`.

    Args:
        config: the broker's settings.
        faults: faults, which may be armed and disarmed at any time.
        security: certificates and users.

    Raises:
        ConfigError: the storage or a topic cannot be set up as configured.
        BrokerUnavailableError: a port cannot be listened on, or Redis does not answer.
    """

    def __init__(self, config: BrokerConfig, faults: Faults, security: ServerSecurity) -> None:
        listeners = _listen(config)
        self.nodes = _nodes(config, listeners)
        bound = {node.id: node.bound for node in self.nodes}
        self._sockets = SocketServer(listeners, bound, security)
        self._requests: RequestHandler | None = None
        if config.storage != LOG:  # Requests that may wait for the storage get their own thread.
            self._requests = RequestHandler(StateLock())
        try:
            self.cluster = self._open_cluster(config, security.denials)
        except BaseException:
            self._sockets.close_all()
            raise
        injector = FaultInjector(self.cluster, faults)
        self._server = Server(self.cluster, self._sockets, self._requests, injector)
        self._thread = threading.Thread(
            target=self._server.run, name="kafkaprod-broker", daemon=True
        )

    def _open_cluster(self, config: BrokerConfig, denials: Denials) -> Cluster:
        clock, purgatory = JumpingClock(SystemClock()), DelayedOperationPurgatory()
        lock = None if self._requests is None else self._requests.lock

        def on_replicated(key: TopicPartition) -> None:
            self.call_soon(lambda: purgatory.wake(key))

        sockets: NodeSockets = self._sockets
        backend: StorageBackend
        if lock is not None:
            sockets = LoopSockets(sockets, self._sockets.call_soon, lock)
            backend = RedisBackend(config.storage, clock, lock, on_replicated)
        else:
            backend = DataDir(config.data_dir) if config.data_dir else MemoryBackend()
        try:
            return Cluster(config, self.nodes, clock, backend, purgatory, sockets, denials)
        except BaseException:
            backend.abandon()
            raise

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run a function on the thread that owns the cluster's state; callable from any thread."""
        if self._requests is None:
            self._sockets.call_soon(function)
        else:
            self._requests.submit(function)

    @property
    def open_connections(self) -> int:
        """Number of client connections to all nodes."""
        return self._sockets.open_connections

    def start(self) -> None:
        """Start the threads that serve requests."""
        if self._requests is not None:
            self._requests.start(self.cluster)
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and flush and close the storage."""
        self._server.stop()
        self._thread.join(STOP_SECONDS)
        self.cluster.close()


def _listen(config: BrokerConfig) -> dict[int, socket.socket]:
    """Return a listening socket for each node, by node id."""
    listeners: dict[int, socket.socket] = {}
    try:
        for index in range(config.nodes):
            port = config.port + index if config.port else 0
            listeners[index + 1] = listen(config.host, port)
    except OSError as error:
        for listener in listeners.values():
            listener.close()
        raise BrokerUnavailableError(
            f"the embedded broker can't listen on {config.host}:{port}: {error.strerror}",
            hint="Set another port, or 0 for any free port",
        ) from error
    return listeners


def _nodes(config: BrokerConfig, listeners: dict[int, socket.socket]) -> tuple[Node, ...]:
    ports = {node: listener.getsockname()[1] for node, listener in listeners.items()}
    addresses = advertised(config.host, config.advertised_listeners, ports)
    return tuple(
        Node(id=node, host=host, port=port, bound=(config.host, ports[node]))
        for node, (host, port) in addresses.items()
    )
