"""A three-node Kafka whose clients come through the proxies; brokers and readers go direct.

There are two ways for clients, each with its proxies: PLAINTEXT, and SASL_SSL with SCRAM, where
sessions end after two seconds.
"""

from __future__ import annotations

import shutil
import ssl
from typing import TYPE_CHECKING, Self

from tools.support.certificates import CertificateAuthority
from tools.support.kafka_cluster import KafkaCluster
from tools.support.kafka_node import free_port
from tools.torture.network.proxy import HOST, Encryption, Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from tools.support.kafka_node import KafkaNode

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
"""Settings with which another node takes over within two seconds."""
_SETTINGS = {
    **QUICK_TO_FAIL_OVER,
    "log.segment.delete.delay.ms": "500",
    "file.delete.delay.ms": "500",
    "controlled.shutdown.enable": "true",
}
DISK_NODE = 3
"""The node whose log folder is on the small disk."""


class TortureCluster(KafkaCluster):
    """`bootstrap_servers` goes direct, what `client_options` names through the proxies.

    `disk`: a folder on a small file system for the third node's logs; None without one.
    """

    def __init__(self, disk: Path | None = None) -> None:
        super().__init__(nodes=3, config=_SETTINGS)
        self.disk = disk
        self._ports = {
            listener: {node.node_id: free_port() for node in self.nodes}
            for listener in (_PLAIN, _SECURED)
        }
        self._proxies: dict[str, dict[int, Proxy]] = {_PLAIN: {}, _SECURED: {}}
        for node in self.nodes:
            node.scram = (f"{_MECHANISM}=[name={_USER},password={_PASSWORD}]",)
        self._certificates = self.folder / "tls"

    @property
    def all_proxies(self) -> list[Proxy]:
        """Of every broker and both ways."""
        return [proxy for proxies in self._proxies.values() for proxy in proxies.values()]

    def client_options(self, *, secured: bool) -> dict[str, str]:
        """The sink's options that lead through the proxies."""
        proxies = self._proxies[_SECURED if secured else _PLAIN]
        servers = ",".join(f"{HOST}:{proxy.port}" for proxy in proxies.values())
        options = {"kafka.bootstrap.servers": servers}
        if not secured:
            return options
        return {
            **options,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self._certificates / "ca.pem"),
            "kafka.sasl.mechanism": _MECHANISM,
            "kafka.sasl.jaas.config": (
                f'{_MODULE} required username="{_USER}" password="{_PASSWORD}";'
            ),
        }

    def __enter__(self) -> Self:
        encryption = self._make_certificates()
        for node in self.nodes:
            number = node.node_id
            plain, secured = self._ports[_PLAIN][number], self._ports[_SECURED][number]
            self._proxies[_PLAIN][number] = Proxy(number, plain)
            self._proxies[_SECURED][number] = Proxy(number, secured, encryption=encryption)
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for proxy in self.all_proxies:
            proxy.close()
        super().__exit__(kind, error, trace)
        if self.disk is not None:
            shutil.rmtree(self.disk / "data", ignore_errors=True)

    def node_settings(self, node: KafkaNode) -> Mapping[str, str]:
        """A node's own listeners, and its own folder on the small disk."""
        number = node.node_id
        controller = f"CONTROLLER://{HOST}:{node.controller_port}"
        direct = f"PLAINTEXT://{node.address}"
        proxied = [f"{name}://{HOST}:{ports[number]}" for name, ports in self._ports.items()]
        shown = [
            f"{name}://{HOST}:{proxies[number].port}" for name, proxies in self._proxies.items()
        ]
        own = {
            "listeners": ",".join([direct, *proxied, controller]),
            "advertised.listeners": ",".join([direct, *shown]),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{_PLAIN}:PLAINTEXT,{_SECURED}:SASL_SSL"
            ),
            **self._security(),
        }
        if self.disk is not None and number == DISK_NODE:
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
        """One certificate for brokers and proxies."""
        self._certificates.mkdir()
        authority = CertificateAuthority()
        trusted = authority.write(self._certificates)
        server = authority.server(HOST, "localhost").write(self._certificates)
        to_clients = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        to_clients.load_cert_chain(server)
        return Encryption(to_clients, ssl.create_default_context(cafile=str(trusted)))
