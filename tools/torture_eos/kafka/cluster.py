"""A Kafka of one or three nodes whose clients come through proxies, which may cut the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.node import free_port
from tools.torture.cluster import QUICK_TO_FAIL_OVER
from tools.torture.network.proxy import HOST
from tools.torture_eos.kafka.end_txns import EndTxns, Gate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from tests.support.kafka.node import KafkaNode

_LISTENER = "PROXIED"


class EosCluster(KafkaCluster):
    """`bootstrap_servers` goes direct, `proxied_servers` through the gates."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes=nodes, config=QUICK_TO_FAIL_OVER)
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
        proxied = f"{_LISTENER}://{HOST}:{self._ports[number]}"
        controller = f"CONTROLLER://{HOST}:{node.controller_port}"
        return {
            "listeners": f"{direct},{proxied},{controller}",
            "advertised.listeners": f"{direct},{_LISTENER}://{HOST}:{self.gates[number].port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{_LISTENER}:PLAINTEXT"
            ),
        }

    def heal(self) -> None:
        """Every gate is open, every node runs, answers, and is ready."""
        for gate in self.gates.values():
            gate.open_gate()
        super().heal()
