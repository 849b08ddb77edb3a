"""A three-node Kafka whose clients come through the proxies; brokers and readers go direct."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Self

from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.node import NodeError, free_port
from tools.torture.proxy import HOST, Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from tests.support.kafka.node import KafkaNode

_LISTENER = "PROXIED"
_SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "100",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "log.segment.delete.delay.ms": "500",
    "file.delete.delay.ms": "500",
    "log.index.size.max.bytes": "4096",
    "controlled.shutdown.enable": "true",
}
DISK_NODE = 3
"""The node whose log folder is on the small disk."""


class TortureCluster(KafkaCluster):
    """`bootstrap_servers` goes direct, `proxied_servers` through `proxies`.

    `disk`: a folder on a small file system for the third node's logs; None without one.
    """

    def __init__(self, disk: Path | None = None) -> None:
        super().__init__(nodes=3, config=_SETTINGS)
        self.disk = disk
        self._ports = {node.node_id: free_port() for node in self.nodes}
        self.proxies: dict[int, Proxy] = {}

    @property
    def proxied_servers(self) -> str:
        """host:port of every proxy."""
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self.proxies.values())

    def __enter__(self) -> Self:
        for node_id, port in self._ports.items():
            self.proxies[node_id] = Proxy(node_id, port)
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        super().__exit__(kind, error, trace)
        if self.disk is not None:
            shutil.rmtree(self.disk / "data", ignore_errors=True)

    def heal(self) -> None:
        """Every node runs, answers, and is ready; one that fails to start gets another chance."""
        try:
            self._heal()
        except NodeError:
            self._heal()

    def _heal(self) -> None:
        for node in self.nodes:
            if node.running:
                node.resume()
            else:
                node.start()
        self.wait_ready()

    def node_settings(self, node: KafkaNode) -> Mapping[str, str]:
        """A node's own listeners, and its own folder on the small disk."""
        node_id = node.node_id
        controller = f"CONTROLLER://{HOST}:{node.controller_port}"
        direct = f"PLAINTEXT://{node.address}"
        own = {
            "listeners": f"{direct},{_LISTENER}://{HOST}:{self._ports[node_id]},{controller}",
            "advertised.listeners": f"{direct},{_LISTENER}://{HOST}:{self.proxies[node_id].port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{_LISTENER}:PLAINTEXT"
            ),
        }
        if self.disk is not None and node_id == DISK_NODE:
            own["log.dirs"] = str(self.disk / "data")
            own["metadata.log.dir"] = str(node.log_dir)
        return own
