"""`BrokerRuntime`: the state, sockets and threads of a running broker."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.cluster.jumping_clock import JumpingClock
from spark_kafka_sink.broker.cluster.nodes import BrokerNode
from spark_kafka_sink.broker.config.broker_config import BrokerConfig, address_text
from spark_kafka_sink.broker.config.command_line_settings import LOG
from spark_kafka_sink.broker.faults.injector import FaultInjector
from spark_kafka_sink.broker.net.event_loop import EventLoop, thread_safe_sockets
from spark_kafka_sink.broker.net.listeners import listen
from spark_kafka_sink.broker.net.request_thread import RequestThread
from spark_kafka_sink.broker.net.socket_server import SocketServer
from spark_kafka_sink.broker.redis.backend import RedisBackend
from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory
from spark_kafka_sink.broker.storage.data_dir import DataDir
from spark_kafka_sink.broker.storage.memory_backend import MemoryBackend
from spark_kafka_sink.broker.storage.state_lock import StateLock
from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from spark_kafka_sink.broker.authorization.denials import Denials
    from spark_kafka_sink.broker.faults.armed_faults import Faults
    from spark_kafka_sink.broker.server_security import ServerSecurity
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_STOP_TIMEOUT_S = 10.0
"""Seconds to wait for the thread to end."""


class BrokerRuntime:
    """A running broker. It listens after construction, and serves requests from `start` to `stop`.

    Args:
        config: the broker's settings.
        faults: the faults to inject; they can be armed and disarmed at any time.
        security: certificates and users.

    Raises:
        ConfigError: the storage or a topic cannot be set up as configured.
        BrokerUnavailableError: a port is not available, or Redis does not respond.
    """

    def __init__(self, config: BrokerConfig, faults: Faults, security: ServerSecurity) -> None:
        self._pid = os.getpid()
        listeners = _open_listeners(config)
        self.nodes = _listening_nodes(config, listeners)
        bound = {node.id: node.bound for node in self.nodes}
        self._sockets = SocketServer(listeners, bound, security)
        self._requests: RequestThread | None = None
        # Requests that might wait for the storage run on a separate thread.
        if config.storage != LOG:
            self._requests = RequestThread(StateLock())
        try:
            self.cluster = self._open_cluster(config, security.denials)
        except BaseException:
            self._sockets.close_all()
            raise
        injector = FaultInjector(self.cluster, faults)
        self._event_loop = EventLoop(self.cluster, self._sockets, self._requests, injector)
        self._thread = threading.Thread(
            target=self._event_loop.run, name="kafkaprod-broker", daemon=True
        )

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run a function on the thread that owns the cluster's state. Thread-safe."""
        if self._requests is None:
            self._sockets.call_soon(function)
        else:
            self._requests.submit(function)

    @property
    def is_in_this_process(self) -> bool:
        """False in a process that was forked from the one with the broker's threads."""
        return os.getpid() == self._pid

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
        """Close all connections, and flush and close the storage.

        This has no effect in a forked process: the storage belongs to its parent.
        """
        if not self.is_in_this_process:
            return
        self._event_loop.stop()
        self._thread.join(_STOP_TIMEOUT_S)
        self.cluster.close()

    def _open_cluster(self, config: BrokerConfig, denials: Denials) -> Cluster:
        clock, purgatory = JumpingClock(), DelayedOperationPurgatory()
        lock = None if self._requests is None else self._requests.lock

        def on_replicated(topic_partition: TopicPartition) -> None:
            self.call_soon(lambda: purgatory.wake(topic_partition))

        sockets = self._sockets.node_sockets
        backend: StorageBackend
        if lock is not None:
            sockets = thread_safe_sockets(self._sockets, lock)
            backend = RedisBackend(config.storage, clock, lock, on_replicated)
        else:
            backend = DataDir(config.data_dir) if config.data_dir else MemoryBackend()
        try:
            return Cluster(
                config,
                nodes=self.nodes,
                clock=clock,
                backend=backend,
                purgatory=purgatory,
                sockets=sockets,
                denials=denials,
            )
        except OSError as error:
            backend.abandon()
            raise ConfigError(
                f"the broker's storage failed: {error}",
                hint="Make the storage writable, or free space.",
            ) from error
        except BaseException:
            backend.abandon()
            raise


def _open_listeners(config: BrokerConfig) -> dict[int, socket.socket]:
    """Return a listening socket for each node, by node id."""
    listeners: dict[int, socket.socket] = {}
    try:
        for index in range(config.nodes):
            port = config.port + index if config.port else 0
            listeners[index + 1] = listen(config.host, port)
    except OSError as error:
        for listener in listeners.values():
            listener.close()
        is_port = error.errno in {errno.EADDRINUSE, errno.EACCES}
        raise BrokerUnavailableError(
            f"the embedded broker cannot listen on {address_text(config.host, port)}: "
            f"{error.strerror}",
            hint="Set another port, or 0 for any free port."
            if is_port
            else "Set host to an address of this machine.",
        ) from error
    return listeners


def _listening_nodes(
    config: BrokerConfig, listeners: dict[int, socket.socket]
) -> tuple[BrokerNode, ...]:
    ports = {node: listener.getsockname()[1] for node, listener in listeners.items()}
    addresses = config.advertised(ports)
    return tuple(
        BrokerNode(id=node, host=host, port=port, bound=(config.host, ports[node]))
        for node, (host, port) in addresses.items()
    )
