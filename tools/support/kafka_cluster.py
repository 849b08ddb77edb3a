"""Real Kafka clusters on loopback, with release 4.3.1 or older, as context managers."""

import atexit
import base64
import shutil
import signal
import subprocess
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from spark_kafka_sink import EmbeddedBroker
from tools.support.admin import Admin
from tools.support.jars import OLD_KAFKA, JarSet
from tools.support.java import QUICK_JVM, command
from tools.support.kafka_node import KafkaNode, NodeError, free_port, new_folder
from tools.support.waiting import poll

_READY_S = 180
_HEAP_MIB = 384
_OLD_HEAP_MIB = 256
_ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ZOOKEEPER_HEAP = "-Xmx64m"
_LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
# Short enough that the partitions of a killed broker soon have new leaders. Long enough for a busy
# machine: a Kafka 2.1 broker whose session expired might never be registered again (KAFKA-7165).
_TICK_MS = 500
_SESSION_MS = 10_000


class Cluster(ABC):
    """Kafka nodes on loopback, whose files are in `folder`.

    As a context manager, it starts the nodes and waits until every broker responds to Metadata. On
    exit, it kills all processes and deletes all files. Start the nodes from a long-lived thread,
    because the kernel kills them when the thread that started them exits.
    """

    def __init__(self, folder: Path, nodes: Sequence[KafkaNode]) -> None:
        self.folder = folder
        self.nodes = list(nodes)

    @abstractmethod
    def start(self) -> None:
        """Write the nodes' files and start all processes, without waiting until they are ready."""

    def node_settings(self, node: KafkaNode) -> Mapping[str, str]:  # noqa: ARG002
        """Return additional server properties of a node; none by default."""
        return {}

    @property
    def bootstrap_servers(self) -> str:
        """The host:port of every node, separated by commas."""
        return ",".join(node.address for node in self.nodes)

    @property
    def admin(self) -> Admin:
        """Admin functions for this cluster."""
        return Admin(self.bootstrap_servers)

    def __enter__(self) -> Self:
        atexit.register(self.close)
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill running processes and delete all files; can be called again."""
        atexit.unregister(self.close)
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def node(self, node_id: int) -> KafkaNode:
        """Return the node with this ID (1, 2, ...)."""
        return self.nodes[node_id - 1]

    def restart(self, node_id: int) -> None:
        """Restart a stopped or killed node with its data, and wait until all nodes are ready."""
        self.node(node_id).start()
        self.wait_ready()

    def heal(self) -> None:
        """Restart stopped nodes, and wait until all nodes are ready; try at most twice.

        Raises:
            NodeError: a node failed again.
        """
        try:
            self._run_all()
        except NodeError:
            self._run_all()

    def partition_dir(self, topic: str, partition: int) -> Path:
        """Return the folder on the first node that contains a partition's segments."""
        return self.node(1).log_dir / f"{topic}-{partition}"

    def wait_ready(self) -> None:
        """Block until every running node listens and appears in the cluster's metadata.

        Raises:
            NodeError: a process exited, or the cluster was not ready within three minutes.
        """
        up = [node for node in self.nodes if node.running]
        for node in up:
            node.wait_listening()
        ids = {node.node_id for node in up}

        def is_ready() -> bool:
            return self.admin.broker_ids() == ids or not all(node.running for node in up)

        if not poll(is_ready, _READY_S) or not all(node.running for node in up):
            ends = "\n".join(node.log_end() for node in up)
            raise NodeError(f"the cluster {self.bootstrap_servers} is not ready:\n{ends}")

    def _run_all(self) -> None:
        for node in self.nodes:
            if node.running:
                node.resume()
            else:
                node.start()
        self.wait_ready()


AnyKafka = Cluster | EmbeddedBroker


def run_until_signal(cluster: Cluster) -> None:
    """Run a cluster until this process receives SIGINT or SIGTERM."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with cluster as kafka:
        print(f"ready: {kafka.bootstrap_servers} files in {kafka.folder}", flush=True)
        stopped.wait()


def _small(nodes: Sequence[KafkaNode]) -> dict[str, str]:
    """Return settings for small clusters: replication of internal topics, and fast rebalances."""
    copies = str(len(nodes))
    return {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "8388608",
        "log.retention.ms": "-1",
    }


def _settings(nodes: Sequence[KafkaNode], config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a KRaft cluster."""
    copies = str(len(nodes))
    voters = ",".join(f"{n.node_id}@127.0.0.1:{n.controller_port}" for n in nodes)
    return {
        **_small(nodes),
        "controller.quorum.voters": voters,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "transaction.state.log.min.isr": str(min(2, len(nodes))),
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        **config,
    }


class KafkaCluster(Cluster):
    """A KRaft cluster of combined broker and controller nodes; `config` adds server properties.

    The default `java_options` make processes start quickly. Set different options for measurements.
    """

    def __init__(
        self,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        port: int | None = None,
        *,
        heap_mib: int = _HEAP_MIB,
        java_options: tuple[str, ...] = QUICK_JVM,
    ) -> None:
        folder = new_folder()
        cluster_nodes = [
            KafkaNode(
                node_id=number,
                folder=folder / f"node-{number}",
                port=port + number - 1 if port else free_port(),
                controller_port=free_port(),
                heap_mib=heap_mib,
                java_options=java_options,
            )
            for number in range(1, nodes + 1)
        ]
        super().__init__(folder, cluster_nodes)
        self._config = dict(config or {})

    def start(self) -> None:
        """Format the nodes' files and start them, without waiting until they are ready."""
        self._format()
        for node in self.nodes:
            node.start()

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(b"k" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        shared = _settings(self.nodes, self._config)
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            formatted = pool.map(
                lambda node: node.format(cluster_id, {**shared, **self.node_settings(node)}),
                self.nodes,
            )
            list(formatted)


@dataclass(slots=True, kw_only=True)
class ZooKeeperBroker(KafkaNode):
    """A broker that uses ZooKeeper and has no controller port."""

    controller_port: int = 0

    def log_option(self) -> str:
        """Return Java's logging option. Releases before 4.0 use log4j 1."""
        return f"-Dlog4j.configuration=file:{self.folder.parent / 'log4j.properties'}"


class ZooKeeperCluster(Cluster):
    """Brokers of an older release and one ZooKeeper node; `config` adds server properties."""

    def __init__(
        self, release: str, nodes: int = 2, config: Mapping[str, str] | None = None
    ) -> None:
        self.release = release
        folder = new_folder()
        self._jars: JarSet = OLD_KAFKA[release]
        self._zookeeper: subprocess.Popen[bytes] | None = None
        self._zookeeper_port = free_port()
        self._config = dict(config or {})
        cluster_nodes = [
            ZooKeeperBroker(
                node_id=number,
                folder=folder / f"node-{number}",
                port=free_port(),
                heap_mib=_OLD_HEAP_MIB,
                java_options=QUICK_JVM,
                jars=self._jars,
            )
            for number in range(1, nodes + 1)
        ]
        super().__init__(folder, cluster_nodes)

    def start(self) -> None:
        """Start ZooKeeper and the brokers, without waiting until they are ready."""
        (self.folder / "log4j.properties").write_text(_LOG4J, encoding="utf-8")
        self._zookeeper = self._start_zookeeper()
        for node in self.nodes:
            settings = {**self._settings(node), **self._config, **self.node_settings(node)}
            node.write_properties(settings)
            node.start()

    def close(self) -> None:
        """Kill running processes and delete all files; can be called again."""
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait()
        super().close()

    def _start_zookeeper(self) -> subprocess.Popen[bytes]:
        properties = self.folder / "zookeeper.properties"
        settings = {
            "dataDir": self.folder / "zookeeper",
            "clientPort": self._zookeeper_port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "tickTime": _TICK_MS,
        }
        properties.write_text(
            "".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8"
        )
        log4j = f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"
        # ZooKeeper's log4j beans need classes that current logging libraries no longer have.
        options = (*QUICK_JVM, _ZOOKEEPER_HEAP, log4j, "-Dzookeeper.jmx.log4j.disable=true")
        line = command(_ZOOKEEPER, [str(properties)], options, self._jars)
        with (self.folder / "zookeeper.log").open("ab") as log:
            return subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _settings(self, node: KafkaNode) -> dict[str, str]:
        return {
            **_small(self.nodes),
            "broker.id": str(node.node_id),
            "zookeeper.connect": f"127.0.0.1:{self._zookeeper_port}",
            "zookeeper.connection.timeout.ms": "60000",
            "zookeeper.session.timeout.ms": str(_SESSION_MS),
            "listeners": f"PLAINTEXT://{node.address}",
            "log.dirs": str(node.log_dir),
        }
