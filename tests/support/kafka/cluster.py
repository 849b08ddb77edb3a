"""The processes of a real Kafka, as a context manager: what KRaft and ZooKeeper have in common."""

from __future__ import annotations

import atexit
import shutil
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from tests.support.kafka.admin import Admin
from tests.support.kafka.node import NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.support.kafka.node import KafkaNode

_READY_S = 180


class Cluster(ABC):
    """Nodes of a Kafka on loopback, whose files are in `folder`.

    `with` starts them, waits until every broker answers Metadata, and leaves neither process nor
    file behind. Start them from a thread that outlives them: the kernel kills the nodes when that
    thread ends.
    """

    def __init__(self, folder: Path, nodes: Sequence[KafkaNode]) -> None:
        self.folder = folder
        self.nodes = list(nodes)

    @abstractmethod
    def start(self) -> None:
        """Write the nodes' files and start every process; none is ready yet."""

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
            self.start()
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

    def heal(self) -> None:
        """Every node runs, answers, and is ready; one that fails to start gets another chance.

        Raises:
            NodeError: it has failed again.
        """
        try:
            self._run_all()
        except NodeError:
            self._run_all()

    def partition_dir(self, topic: str, partition: int, node_id: int = 1) -> Path:
        """The folder with the segments of a partition on a node."""
        return self.node(node_id).log_dir / f"{topic}-{partition}"

    def wait_ready(self) -> None:
        """Block until every running node listens and is known to the cluster's metadata.

        Raises:
            NodeError: a process ended, or three minutes passed.
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

    def _run_all(self) -> None:
        for node in self.nodes:
            if node.running:
                node.resume()
            else:
                node.start()
        self.wait_ready()


def run_until_signal(cluster: Cluster) -> None:
    """Run a cluster until SIGINT or SIGTERM."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with cluster as kafka:
        sys.stdout.write(f"ready: {kafka.bootstrap_servers} files in {kafka.folder}\n")
        sys.stdout.flush()
        stopped.wait()
