"""A real Kafka 4.3.1 cluster of one or three nodes on loopback, as a context manager.

From the command line, until interrupted: `python -m tests.support.kafka.broker --port 19092`.
"""

from __future__ import annotations

import argparse
import base64
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.support.kafka.cluster import Cluster, run_until_signal
from tests.support.kafka.folders import new_folder
from tests.support.kafka.node import KafkaNode, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAP_MIB = 384
# Tests run side by side on few cores: compile quickly rather than well.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def _settings(nodes: list[KafkaNode], config: Mapping[str, str]) -> dict[str, str]:
    """Kafka's defaults, but for internal topics that fit the cluster and quick groups."""
    copies = str(len(nodes))
    voters = ",".join(f"{n.node_id}@127.0.0.1:{n.controller_port}" for n in nodes)
    return {
        "controller.quorum.voters": voters,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, len(nodes))),
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "8388608",
        "log.retention.ms": "-1",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        **config,
    }


class KafkaCluster(Cluster):
    """A KRaft cluster whose nodes are broker and controller; `config` adds server properties.

    Its processes start quickly; one that is to be measured takes other `java_options`.
    """

    def __init__(
        self,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        port: int | None = None,
        *,
        heap_mib: int = _HEAP_MIB,
        java_options: tuple[str, ...] = QUICK,
    ) -> None:
        folder = new_folder()
        made = [
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
        super().__init__(folder, made)
        self._config = dict(config or {})

    def start(self) -> None:
        """Format the nodes' files and start them; none is ready yet."""
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

    def node_settings(self, node: KafkaNode) -> Mapping[str, str]:  # noqa: ARG002
        """Server properties that a node has on top of those of all; here none."""
        return {}


def main() -> None:
    """Run a cluster until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.kafka.broker")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3))
    parser.add_argument("--port", type=int, default=None, help="of the first node")
    parser.add_argument("--set", action="append", default=[], help="name=value, server property")
    arguments = parser.parse_args()
    config = dict(item.split("=", 1) for item in arguments.set)
    run_until_signal(KafkaCluster(arguments.nodes, config, arguments.port))


if __name__ == "__main__":
    main()
