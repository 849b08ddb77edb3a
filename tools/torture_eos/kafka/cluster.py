"""A Kafka whose clients come through proxies, which may cut the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tools.support.kafka_cluster import Cluster, KafkaCluster, ZooKeeperCluster
from tools.support.kafka_node import free_port
from tools.torture.cluster import QUICK_TO_FAIL_OVER
from tools.torture.network.proxy import HOST
from tools.torture_eos.kafka.end_txns import EndTxns, Gate
from tools.torture_eos.plans.brokers import Brokers, Release

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from tools.support.kafka_node import KafkaNode

_LISTENER = "PROXIED"
_TWO_PHASE = {
    "unstable.api.versions.enable": "true",
    "transaction.two.phase.commit.enable": "true",
}
_OLD = {
    "replica.lag.time.max.ms": "1500",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.index.size.max.bytes": "4096",
}


class EosCluster(Cluster):
    """`bootstrap_servers` goes direct, `proxied_servers` through the gates."""

    least_down_s = 0.0
    """A killed node may not be started before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ports = {node.node_id: free_port() for node in self.nodes}
        self.end_txns = EndTxns()
        self.gates: dict[int, Gate] = {}

    @property
    def proxied_servers(self) -> str:
        """host:port of every gate, comma-separated."""
        return ",".join(f"{HOST}:{gate.port}" for gate in self.gates.values())

    def __enter__(self) -> Self:
        self.gates = {
            number: Gate(number, port, self.end_txns) for number, port in self._ports.items()
        }
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gate in self.gates.values():
            gate.close()
        super().__exit__(kind, error, trace)

    def node_settings(self, node: KafkaNode) -> Mapping[str, str]:
        """The listener that clients come to through the node's gate."""
        number = node.node_id
        direct = f"PLAINTEXT://{node.address}"
        listeners = [direct, f"{_LISTENER}://{HOST}:{self._ports[number]}"]
        if node.controller_port:
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        protocols = (f"{listener.split(':')[0]}:PLAINTEXT" for listener in listeners)
        return {
            "listeners": ",".join(listeners),
            "advertised.listeners": f"{direct},{_LISTENER}://{HOST}:{self.gates[number].port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(protocols),
        }

    def heal(self) -> None:
        """Every gate is open, every node runs, answers, and is ready."""
        for gate in self.gates.values():
            gate.open_gate()
        super().heal()


class _KRaft(EosCluster, KafkaCluster):
    """Of today's release."""


class _Old(EosCluster, ZooKeeperCluster):
    """Of a release before 4.0."""

    least_down_s = 12.0
    """ZooKeeper holds the id of a killed broker until its session has expired."""


def eos_cluster(brokers: Brokers) -> EosCluster:
    """A cluster of these brokers."""
    if brokers.release is not Release.V4_3_1:
        return _Old(brokers.release, nodes=brokers.nodes, config=_OLD)
    config = {**QUICK_TO_FAIL_OVER, **(_TWO_PHASE if brokers.two_phase else {})}
    return _KRaft(nodes=brokers.nodes, config=config)
