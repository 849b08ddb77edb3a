"""Clusters to which clients connect through proxies; brokers and readers connect directly.

The cluster for the producer scenarios has two listeners for clients, each with separate proxies:
PLAINTEXT, and SASL_SSL with SCRAM and sessions of two seconds. To test a full disk, the log folder
of one node can be on a small file system.
"""

import contextlib
import shutil
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from tools.support.certificates import CertificateAuthority
from tools.support.kafka_cluster import Cluster, KafkaCluster, ZooKeeperCluster
from tools.support.kafka_node import KafkaNode, free_port
from tools.torture.proxy import HOST, Encryption, EndTxns, Gate, Proxy

_STEP = 1 << 16


def fill(folder: Path) -> None:
    """Fill the file system completely."""
    with (folder / "ballast").open("ab", buffering=0) as ballast:
        for step in (_STEP, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while ballast.write(bytes(step)) == step:
                    pass


def empty(folder: Path) -> None:
    """Free the space that `fill` used."""
    (folder / "ballast").unlink(missing_ok=True)


class Release(StrEnum):
    """A Kafka release. Releases before 4.0 have transactions V1 and need ZooKeeper."""

    V4_3_1 = "4.3.1"
    V3_9_1 = "3.9.1"
    V2_8_2 = "2.8.2"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Brokers:
    """The configuration of a cluster; `two_phase` enables KIP-939 on brokers and in the sink."""

    nodes: int = 1
    release: Release = Release.V4_3_1
    two_phase: bool = False

    @property
    def lists_transactions(self) -> bool:
        """True if the release can list transactions (3.0 or later).

        In older releases, open transactions of lost attempts must time out.
        """
        return self.release is not Release.V2_8_2


_PLAIN, _SECURED = "PROXIED", "SECURED"
_USER, _PASSWORD = "torture", "torture-secret"
_MECHANISM = "SCRAM-SHA-256"
_REAUTH_MS = 2_000
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
QUICK_TO_FAIL_OVER = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "100",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "log.index.size.max.bytes": "4096",
}
"""Settings that make partitions fail over to a different node within two seconds."""
_SETTINGS = {
    **QUICK_TO_FAIL_OVER,
    "log.segment.delete.delay.ms": "500",
    "file.delete.delay.ms": "500",
    "controlled.shutdown.enable": "true",
}
DISK_NODE = 3
"""The ID of the node whose log folder is on the small file system."""


def proxied_listeners(node: KafkaNode, proxied: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Return the settings of listeners that advertise proxies.

    `proxied` contains the port of the listener and the port of its proxy by listener name.
    """
    direct = f"PLAINTEXT://{node.address}"
    own = [direct, *(f"{name}://{HOST}:{port}" for name, (port, _) in proxied.items())]
    shown = [direct, *(f"{name}://{HOST}:{proxy}" for name, (_, proxy) in proxied.items())]
    if node.controller_port:
        own.append(f"CONTROLLER://{HOST}:{node.controller_port}")
    names = [listener.split(":")[0] for listener in own]
    protocols = {**dict.fromkeys(names, "PLAINTEXT"), _SECURED: "SASL_SSL"}
    return {
        "listeners": ",".join(own),
        "advertised.listeners": ",".join(shown),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(f"{name}:{protocols[name]}" for name in names),
    }


class ProxiedCluster(Cluster):
    """A cluster with listeners whose clients connect through proxies.

    `bootstrap_servers` connects directly.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ports: dict[str, dict[int, int]] = {}
        self._proxies: dict[str, dict[int, Proxy]] = {}

    def add_listener(self, name: str, make: Callable[[int, int], Proxy]) -> None:
        """Add a listener. `make` returns the proxy for a node ID and the listener's port."""
        ports = self._ports[name] = {node.node_id: free_port() for node in self.nodes}
        self._proxies[name] = {number: make(number, port) for number, port in ports.items()}

    @property
    def all_proxies(self) -> list[Proxy]:
        """The proxies of all brokers and listeners."""
        return [proxy for proxies in self._proxies.values() for proxy in proxies.values()]

    def servers(self, name: str) -> str:
        """Return the host:port of the proxies of a listener, separated by commas."""
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self._proxies[name].values())

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """Return the settings of a node's listeners."""
        number = node.node_id
        return proxied_listeners(
            node,
            {
                name: (ports[number], self._proxies[name][number].port)
                for name, ports in self._ports.items()
            },
        )

    def close(self) -> None:
        """Kill running processes and delete all files; can be called again."""
        for proxy in self.all_proxies:
            proxy.close()
        super().close()


class TortureCluster(ProxiedCluster, KafkaCluster):
    """A cluster whose clients connect through proxies if they use `client_options`.

    `disk` is a folder on a small file system for the logs of node `DISK_NODE`, or None.
    """

    def __init__(self, disk: Path | None = None) -> None:
        super().__init__(nodes=3, config=_SETTINGS)
        self.disk = disk
        self._certificates = self.folder / "tls"
        encryption = self._make_certificates()
        self.add_listener(_PLAIN, Proxy)
        self.add_listener(_SECURED, partial(Proxy, encryption=encryption))
        for node in self.nodes:
            node.scram = (f"{_MECHANISM}=[name={_USER},password={_PASSWORD}]",)

    def client_options(self, *, secured: bool) -> dict[str, str]:
        """Return the client options to connect through the proxies."""
        if not secured:
            return {"kafka.bootstrap.servers": self.servers(_PLAIN)}
        return {
            "kafka.bootstrap.servers": self.servers(_SECURED),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self._certificates / "ca.pem"),
            "kafka.sasl.mechanism": _MECHANISM,
            "kafka.sasl.jaas.config": (
                f'{_MODULE} required username="{_USER}" password="{_PASSWORD}";'
            ),
        }

    def close(self) -> None:
        """Kill running processes and delete all files; can be called again."""
        super().close()
        if self.disk is not None:
            shutil.rmtree(self.disk / "data", ignore_errors=True)

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """Return the settings of a node's listeners and of its log folder."""
        own = {**super().node_settings(node), **self._security()}
        if self.disk is not None and node.node_id == DISK_NODE:
            own["log.dirs"] = str(self.disk / "data")
            own["metadata.log.dir"] = str(node.log_dir)
        return own

    def _security(self) -> dict[str, str]:
        prefix = f"listener.name.{_SECURED.lower()}."
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificates / "server.pem"),
            "sasl.enabled.mechanisms": _MECHANISM,
            f"{_MECHANISM.lower()}.sasl.jaas.config": f"{_MODULE} required;",
            "connections.max.reauth.ms": str(_REAUTH_MS),
        }
        return {f"{prefix}{name}": value for name, value in settings.items()}

    def _make_certificates(self) -> Encryption:
        """Create a certificate that the brokers and proxies share."""
        self._certificates.mkdir()
        authority = CertificateAuthority()
        trusted = authority.write(self._certificates)
        server = authority.server(HOST, "localhost").write(self._certificates)
        to_clients = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        to_clients.load_cert_chain(server)
        return Encryption(to_clients, ssl.create_default_context(cafile=str(trusted)))


_TWO_PHASE = {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
_OLD = {
    "replica.lag.time.max.ms": "1500",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.index.size.max.bytes": "4096",
}


class EosCluster(ProxiedCluster):
    """A cluster whose clients connect through gates if they use `proxied_servers`."""

    least_down_s = 0.0
    """Minimum downtime of a killed node in seconds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.end_txns = EndTxns()
        self.gates: dict[int, Gate] = {}
        self.add_listener(_PLAIN, self._make_gate)

    @property
    def proxied_servers(self) -> str:
        """The host:port of every gate, separated by commas."""
        return self.servers(_PLAIN)

    def _make_gate(self, number: int, port: int) -> Gate:
        gate = self.gates[number] = Gate(number, port, self.end_txns)
        return gate

    def heal(self) -> None:
        """Open all gates, restart stopped nodes, and wait until all nodes are ready."""
        for gate in self.gates.values():
            gate.open_gate()
        super().heal()


class _KRaft(EosCluster, KafkaCluster):
    """A cluster of the current release."""


class _Old(EosCluster, ZooKeeperCluster):
    """A cluster of a release before 4.0."""

    least_down_s = 12.0
    """ZooKeeper retains the ID of a killed broker until its session expires."""


def eos_cluster(brokers: Brokers) -> EosCluster:
    """Return a new cluster with this configuration."""
    if brokers.release is not Release.V4_3_1:
        return _Old(brokers.release, nodes=brokers.nodes, config=_OLD)
    config = {**QUICK_TO_FAIL_OVER, **(_TWO_PHASE if brokers.two_phase else {})}
    return _KRaft(nodes=brokers.nodes, config=config)
