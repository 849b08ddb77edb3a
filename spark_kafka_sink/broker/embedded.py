"""A broker inside this process."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.broker.cluster.cluster import Cluster, Node
from spark_kafka_sink.broker.cluster.topics import NewTopic
from spark_kafka_sink.broker.cluster_control import ClusterControl
from spark_kafka_sink.broker.config import BrokerConfig
from spark_kafka_sink.broker.faults import Faults
from spark_kafka_sink.broker.listeners import advertised, reachable
from spark_kafka_sink.broker.net.server import Server, listen
from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import BrokerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self, Unpack

    from spark_kafka_sink.broker.config import BrokerOptions

T = TypeVar("T")

STOP_SECONDS = 10.0


class EmbeddedBroker(ClusterControl):
    """A small Kafka broker, or a cluster of them, for tests and demos.

    Data lives in memory, or in the folder `data_dir`.

    Every socket and all state belong to one daemon thread. Use it as a context manager::

        with EmbeddedBroker(topics={"events": 4}) as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    Args:
        options: the fields of `BrokerConfig`.

    Raises:
        ConfigError: an option is out of range.
        BrokerUnavailableError: a port can't be listened on.
    """

    def __init__(self, **options: Unpack[BrokerOptions]) -> None:
        self.config = BrokerConfig(**options)
        self.faults = Faults()
        """Faults that are armed; they outlive `stop` and `start`."""
        for spec in self.config.faults:
            self.faults.add(spec)
        self._nodes: tuple[Node, ...] = ()
        self._server: Server | None = None
        self._cluster: Cluster | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses that all nodes listen on, as clients on this machine want them."""
        bound = [node.bound for node in self._nodes]
        return ",".join(f"{reachable(host)}:{port}" for host, port in bound)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, by id from 1."""
        return self._nodes

    def start(self) -> None:
        """Listen and serve; returns when clients can connect.

        A stopped broker starts with what lies in its data folder, or empty if it has none.
        """
        config = self.config
        listeners = {}
        try:
            for index in range(config.nodes):
                port = config.port + index if config.port else 0
                listeners[index + 1] = listen(config.host, port)
        except OSError as error:
            for listener in listeners.values():
                listener.close()
            raise BrokerUnavailableError(
                f"the embedded broker can't listen on {config.host}:{port}: {error.strerror}",
                hint="Choose another port, or 0 for any free one",
            ) from error
        ports = {node: listener.getsockname()[1] for node, listener in listeners.items()}
        self._nodes = tuple(
            Node(id=node, host=host, port=port, bound=(config.host, ports[node]))
            for node, (host, port) in advertised(config, ports).items()
        )
        try:
            self._cluster = Cluster(config, list(self._nodes), SystemClock())
        except BaseException:
            for listener in listeners.values():
                listener.close()
            raise
        self._cluster.faults = self.faults
        self._server = Server(self._cluster, listeners)
        self._thread = threading.Thread(
            target=self._server.run, name="kafkaprod-broker", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and forget all data unless there is a data folder.

        Harmless when it is not running.
        """
        if self._server is None or self._thread is None:
            return
        self._server.stop()
        self._thread.join(STOP_SECONDS)
        if self._cluster is not None:
            self._cluster.close()
        self._server = self._thread = self._cluster = None

    def run(self, function: Callable[[Cluster], T]) -> T:
        """Look at or change the state on the broker's own thread, and return what that returns.

        Raises:
            BrokerUnavailableError: the broker is not running.
        """
        cluster, server = self._cluster, self._server
        if cluster is None or server is None:
            raise BrokerUnavailableError(
                "the embedded broker is not running", hint="Use it inside its with block"
            )
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(function(cluster))
            except Exception as error:  # noqa: BLE001 - it belongs to the caller's thread
                future.set_exception(error)

        server.call_soon(call)
        return future.result(STOP_SECONDS)

    def create_topic(self, name: str, partitions: int = -1, **configs: str) -> None:
        """Make a topic; configs have underscores for Kafka's dots.

        Raises:
            TopicError: it can't be made.
        """
        own = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name=name, partitions=partitions, configs=own)
        self.run(lambda cluster: cluster.topics.create(new))

    def end_offsets(self, topic: str) -> list[int]:
        """The end of each partition's log, by partition; of no partitions if there is no topic."""

        def read(cluster: Cluster) -> list[int]:
            found = cluster.topics.named(topic)
            return [p.log.end_offset for p in found.partitions] if found else []

        return self.run(read)

    def batches(self, topic: str, partition: int) -> list[bytes]:
        """The batches in a partition's log, whole, in order of offsets."""

        def read(cluster: Cluster) -> list[bytes]:
            found = cluster.topics.named(topic)
            wanted = found.partition(partition) if found else None
            return [bytes(batch.data) for batch in wanted.log] if wanted else []

        return self.run(read)
