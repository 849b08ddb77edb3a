"""A real Kafka of a release before 4.0, with its ZooKeeper, as a context manager.

From the command line, until interrupted: `python -m tests.support.kafka.zookeeper 2.8.2`.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.kafka.cluster import Cluster, run_until_signal
from tests.support.kafka.folders import new_folder
from tests.support.kafka.jars import OLD_KAFKA, JarSet
from tests.support.kafka.java import command
from tests.support.kafka.node import KafkaNode, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAP_MIB = 256
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ZOOKEEPER_HEAP = "-Xmx64m"
_LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
# Short enough for a killed broker's partitions to move soon, long enough for a busy machine: a
# broker of 2.1 whose session has expired may never be registered again (KAFKA-7165).
_TICK_MS = 500
_SESSION_MS = 10_000


@dataclass(slots=True, kw_only=True)
class ZooKeeperBroker(KafkaNode):
    """A broker that finds its cluster in ZooKeeper; it has no controller's port."""

    controller_port: int = 0

    def log_option(self) -> str:
        """Releases before 4.0 log through log4j 1."""
        return f"-Dlog4j.configuration=file:{self.folder.parent / 'log4j.properties'}"


class ZooKeeperCluster(Cluster):
    """Brokers of a release, and one ZooKeeper; `config` adds server properties."""

    def __init__(
        self, release: str, nodes: int = 2, config: Mapping[str, str] | None = None
    ) -> None:
        self.release = release
        folder = new_folder()
        self._jars: JarSet = OLD_KAFKA[release]
        self._zookeeper: subprocess.Popen[bytes] | None = None
        self._zookeeper_port = free_port()
        self._config = dict(config or {})
        made = [
            ZooKeeperBroker(
                node_id=number,
                folder=folder / f"node-{number}",
                port=free_port(),
                heap_mib=_HEAP_MIB,
                java_options=_QUICK,
                jars=self._jars,
            )
            for number in range(1, nodes + 1)
        ]
        super().__init__(folder, made)

    def start(self) -> None:
        """Start ZooKeeper and the brokers, which wait for it; none is ready yet."""
        (self.folder / "log4j.properties").write_text(_LOG4J)
        self._zookeeper = self._start_zookeeper()
        for node in self.nodes:
            settings = {**self._settings(node), **self._config, **self.node_settings(node)}
            node.write_properties(settings)
            node.start()

    def node_settings(self, node: KafkaNode) -> Mapping[str, str]:  # noqa: ARG002
        """Server properties that a node has on top of those of all; here none."""
        return {}

    def close(self) -> None:
        """Kill what runs and delete every file; may be called again."""
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
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        log4j = f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"
        # Its beans for log4j need classes that the logging library of today has no more.
        options = (*_QUICK, _ZOOKEEPER_HEAP, log4j, "-Dzookeeper.jmx.log4j.disable=true")
        line = command(_ZOOKEEPER, [str(properties)], options, self._jars)
        with (self.folder / "zookeeper.log").open("ab") as log:
            return subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _settings(self, node: KafkaNode) -> dict[str, str]:
        copies = str(len(self.nodes))
        return {
            "broker.id": str(node.node_id),
            "zookeeper.connect": f"127.0.0.1:{self._zookeeper_port}",
            "zookeeper.connection.timeout.ms": "60000",
            "zookeeper.session.timeout.ms": str(_SESSION_MS),
            "listeners": f"PLAINTEXT://{node.address}",
            "log.dirs": str(node.log_dir),
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "8388608",
            "log.retention.ms": "-1",
        }


def main() -> None:
    """Run a cluster of a release until SIGINT or SIGTERM."""
    run_until_signal(ZooKeeperCluster(sys.argv[1]))


if __name__ == "__main__":
    main()
