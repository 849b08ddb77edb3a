"""A real Kafka 4.3.1 cluster of one or three nodes on loopback, as a context manager.

From the command line, until interrupted: `python -m tests.kafka.broker --port 19092`.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import contextlib
import shutil
import signal
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from tests.kafka.admin import Admin
from tests.kafka.folders import new_folder
from tests.kafka.node import KafkaNode, NodeError, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

_READY_S = 60
_HEAP_MIB = {1: 512, 3: 384}
# Three nodes share few cores and are never measured: compile quickly rather than well.
_JAVA_OPTIONS = {3: ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")}


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


class KafkaCluster:
    """A KRaft cluster whose nodes are broker and controller; `config` adds server properties.

    `with KafkaCluster(nodes=3) as kafka:` starts it, waits until every broker answers Metadata,
    and leaves neither process nor file behind. Start it from a thread that outlives it: the
    kernel kills the nodes when that thread ends.
    """

    def __init__(
        self, nodes: int = 1, config: Mapping[str, str] | None = None, port: int | None = None
    ) -> None:
        self.folder: Path = new_folder()
        self.nodes: list[KafkaNode] = [
            KafkaNode(
                node_id=number,
                folder=self.folder / f"node-{number}",
                port=port + number - 1 if port else free_port(),
                controller_port=free_port(),
                heap_mib=_HEAP_MIB.get(nodes, 384),
                java_options=_JAVA_OPTIONS.get(nodes, ()),
            )
            for number in range(1, nodes + 1)
        ]
        self._config = dict(config or {})

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every node, comma-separated."""
        return ",".join(node.address for node in self.nodes)

    @property
    def admin(self) -> Admin:
        """Topics and leaders of this cluster."""
        return Admin(self.bootstrap_servers)

    def __enter__(self) -> Self:
        atexit.register(self.close)
        try:
            self._format()
            for node in self.nodes:
                node.start()
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill what runs and delete every file; may be called again."""
        atexit.unregister(self.close)
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def node(self, node_id: int) -> KafkaNode:
        """The node with this id (1, 2, ...)."""
        return self.nodes[node_id - 1]

    def restart(self, node_id: int) -> None:
        """Start a stopped or killed node again on its files, and wait until all are ready."""
        self.node(node_id).start()
        self.wait_ready()

    def partition_dir(self, topic: str, partition: int, node_id: int = 1) -> Path:
        """The folder with the segments of a partition on a node."""
        return self.node(node_id).log_dir / f"{topic}-{partition}"

    def wait_ready(self) -> None:
        """Block until every running node listens and is known to the cluster's metadata.

        Raises:
            NodeError: a process ended, or a minute passed.
        """
        up = [node for node in self.nodes if node.running]
        for node in up:
            node.wait_listening()
        deadline = time.monotonic() + _READY_S
        while self.admin.broker_ids() != {node.node_id for node in up}:
            if time.monotonic() > deadline or not all(node.running for node in up):
                ends = "\n".join(node.log_end() for node in up)
                raise NodeError(f"the cluster {self.bootstrap_servers} is not ready:\n{ends}")
            time.sleep(0.1)

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").lstrip("-")
        settings = _settings(self.nodes, self._config)
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.format(cluster_id, settings), self.nodes))


def main() -> None:
    """Run a cluster until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.broker")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3))
    parser.add_argument("--port", type=int, default=None, help="of the first node")
    parser.add_argument("--set", action="append", default=[], help="name=value, server property")
    arguments = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    config = dict(item.split("=", 1) for item in arguments.set)
    with KafkaCluster(arguments.nodes, config, arguments.port) as kafka:
        sys.stdout.write(f"ready: {kafka.bootstrap_servers} files in {kafka.folder}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            stopped.wait()


if __name__ == "__main__":
    main()
