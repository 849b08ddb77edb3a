"""Clusters to which clients connect through proxies; brokers and readers connect directly."""

import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tools.support.certificates import CertificateAuthority
from tools.support.kafka_cluster import Cluster, KafkaCluster, ZooKeeperCluster
from tools.support.kafka_node import KafkaNode, free_port
from tools.torture.proxy import HOST, Encryption, EndTxns, Proxy

_PLAIN, _SECURED = "PROXIED", "SECURED"
_USER, _PASSWORD = "torture", "torture-secret"
_MECHANISM = "SCRAM-SHA-256"
_REAUTH_MS = 2_000
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_QUICK_TO_FAIL_OVER = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "100",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "log.index.size.max.bytes": "4096",
}
"""Settings that make partitions fail over to a different node within two seconds."""
_DELETES_QUICKLY = {
    "log.segment.delete.delay.ms": "500",
    "file.delete.delay.ms": "500",
    "controlled.shutdown.enable": "true",
}
_TWO_PHASE = {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
_OLD = {
    "replica.lag.time.max.ms": "1500",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.index.size.max.bytes": "4096",
}


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


class ProxiedCluster(Cluster):
    """A cluster with listeners whose clients connect through proxies.

    Clients connect to `proxied_servers`; `bootstrap_servers` connects directly.
    """

    least_down_s = 0.0
    """Minimum downtime of a killed node in seconds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.end_txns = EndTxns()
        self._ports: dict[str, dict[int, int]] = {}
        self._proxies: dict[str, dict[int, Proxy]] = {}
        self.add_listener(_PLAIN)

    def add_listener(self, name: str, encryption: Encryption | None = None) -> None:
        """Add a listener, with a proxy for each node."""
        ports = self._ports[name] = {node.node_id: free_port() for node in self.nodes}
        self._proxies[name] = {
            number: Proxy(number, port, self.end_txns, encryption) for number, port in ports.items()
        }

    @property
    def proxies(self) -> dict[int, Proxy]:
        """The proxies of the listener without encryption, by node ID."""
        return self._proxies[_PLAIN]

    @property
    def all_proxies(self) -> list[Proxy]:
        """The proxies of all brokers and listeners."""
        return [proxy for proxies in self._proxies.values() for proxy in proxies.values()]

    @property
    def proxied_servers(self) -> str:
        """The host:port of the proxies without encryption, separated by commas."""
        return self._servers(_PLAIN)

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """Return the settings of a node's listeners, which advertise the proxies."""
        number, direct = node.node_id, f"PLAINTEXT://{node.address}"
        own = [f"{name}://{HOST}:{ports[number]}" for name, ports in self._ports.items()]
        shown = [
            f"{name}://{HOST}:{proxies[number].port}" for name, proxies in self._proxies.items()
        ]
        if node.controller_port:
            own.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        protocols = ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", f"{_PLAIN}:PLAINTEXT"]
        return {
            "listeners": ",".join([direct, *own]),
            "advertised.listeners": ",".join([direct, *shown]),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join([*protocols, f"{_SECURED}:SASL_SSL"]),
        }

    def heal(self) -> None:
        """Stop all faults, restart stopped nodes, and wait until all nodes are ready."""
        for proxy in self.all_proxies:
            proxy.heal()
        super().heal()

    def close(self) -> None:
        """Kill running processes and delete all files; can be called again."""
        for proxy in self.all_proxies:
            proxy.close()
        super().close()

    def _servers(self, listener: str) -> str:
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self._proxies[listener].values())


class ProxiedKafka(ProxiedCluster, KafkaCluster):
    """A cluster of the current release."""


class _ProxiedOldKafka(ProxiedCluster, ZooKeeperCluster):
    """A cluster of a release before 4.0."""

    least_down_s = 12.0
    """ZooKeeper retains the ID of a killed broker until its session expires."""


def proxied_cluster(brokers: Brokers) -> ProxiedCluster:
    """Return a new cluster with this configuration."""
    if brokers.release is not Release.V4_3_1:
        return _ProxiedOldKafka(brokers.release, nodes=brokers.nodes, config=_OLD)
    config = {**_QUICK_TO_FAIL_OVER, **(_TWO_PHASE if brokers.two_phase else {})}
    return ProxiedKafka(nodes=brokers.nodes, config=config)


class SecuredCluster(ProxiedKafka):
    """Three nodes that also have a listener with SASL_SSL, SCRAM and sessions of two seconds."""

    def __init__(self) -> None:
        super().__init__(nodes=3, config={**_QUICK_TO_FAIL_OVER, **_DELETES_QUICKLY})
        self._certificates = self.folder / "tls"
        self.add_listener(_SECURED, self._make_certificates())
        for node in self.nodes:
            node.scram = (f"{_MECHANISM}=[name={_USER},password={_PASSWORD}]",)

    def client_options(self, *, secured: bool) -> dict[str, str]:
        """Return the client options to connect through the proxies."""
        if not secured:
            return {"kafka.bootstrap.servers": self.proxied_servers}
        return {
            "kafka.bootstrap.servers": self._servers(_SECURED),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self._certificates / "ca.pem"),
            "kafka.sasl.mechanism": _MECHANISM,
            "kafka.sasl.jaas.config": (
                f'{_MODULE} required username="{_USER}" password="{_PASSWORD}";'
            ),
        }

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """Return the settings of a node's listeners."""
        security = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificates / "server.pem"),
            "sasl.enabled.mechanisms": _MECHANISM,
            f"{_MECHANISM.lower()}.sasl.jaas.config": f"{_MODULE} required;",
            "connections.max.reauth.ms": str(_REAUTH_MS),
        }
        prefix = f"listener.name.{_SECURED.lower()}."
        own = {f"{prefix}{name}": value for name, value in security.items()}
        return super().node_settings(node) | own

    def _make_certificates(self) -> Encryption:
        """Create a certificate that the brokers and proxies share."""
        self._certificates.mkdir()
        authority = CertificateAuthority()
        trusted = authority.write(self._certificates)
        server = authority.server(HOST, "localhost").write(self._certificates)
        to_clients = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        to_clients.load_cert_chain(server)
        return Encryption(to_clients, ssl.create_default_context(cafile=str(trusted)))
