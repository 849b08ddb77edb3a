"""The configuration of an embedded broker: settings, listener addresses and advertised addresses.

Advertised addresses (Kafka's advertised.listeners) differ from the listener addresses if clients
connect through a container's port mapping, NAT or a proxy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.config.kafka_releases import has_transaction_version, known_release
from spark_kafka_sink.broker.plain_settings import LOG, MINIMUM
from spark_kafka_sink.broker.security.settings import SecuritySettings
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.addresses import parse_addresses, secured_protocols

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANY = frozenset({"", "0.0.0.0", "::"})
"""Wildcard hosts, which mean all addresses of the machine and cannot be advertised."""
_LOOPBACK = "127.0.0.1"
_LOCAL_HOSTS = ("localhost", _LOOPBACK, "::1")


def reachable(host: str) -> str:
    """Return the host that clients on this machine use to reach a listener on `host`."""
    return _LOOPBACK if host in _ANY else host


def address_text(host: str, port: int) -> str:
    """Return host:port, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _split_addresses(advertised_listeners: str) -> list[tuple[str, int]]:
    """Return the host and port of each advertised address."""
    addresses = parse_addresses(advertised_listeners, "advertised_listeners")
    parts = (address.rpartition(":") for address in addresses)
    return [(host.strip("[]"), int(port)) for host, _, port in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(SecuritySettings):
    """Settings of an embedded broker.

    `SecuritySettings` and `PlainSettings` describe the other settings.

    Raises:
        ConfigError: a value is out of range, or options are incompatible.
    """

    topics: Mapping[str, int] = field(default_factory=dict)
    """Partition counts of the topics to create on startup, by topic."""
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Topic-level configs, with Kafka's config names, by topic."""
    replication_factors: Mapping[str, int] = field(default_factory=dict)
    """Replication factors by topic; all other topics use the default."""
    faults: Sequence[str] = ()
    """Faults to inject from startup, in the format of `kafkaprod broker --fault`."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value, minimum = getattr(self, setting.name), setting.metadata.get(MINIMUM)
            if minimum is not None and value < minimum:
                hint = f"It must be at least {minimum}."
                raise ConfigError(f"{setting.name} is {value}", hint=hint)
        if self.host.startswith("[") and self.host.endswith("]"):
            object.__setattr__(self, "host", self.host[1:-1])
        self._check_replication()
        if unknown := self.topic_configs.keys() - self.topics.keys():
            raise ConfigError(
                f"topic_configs contains topics missing from topics: {', '.join(sorted(unknown))}",
                hint="Add them to topics.",
            )
        if self.storage != LOG and self.data_dir is not None:
            raise ConfigError(
                f"data_dir and storage={self.storage.partition(':')[0]} are mutually exclusive",
                hint="Remove one of them.",
            )
        if self.transaction_version not in {0, 1, 2}:
            raise ConfigError(
                f"transaction_version is {self.transaction_version}", hint="It must be 0, 1 or 2."
            )
        last_port = 65_536 - self.nodes  # Each further node has the next port.
        if self.port and not 0 < self.port <= last_port:
            raise ConfigError(
                f"port {self.port} is out of range",
                hint=f"Set a port from 1 to {last_port}, or 0 for any free port.",
            )
        if self.api_versions_of is not None:
            known_release(self.api_versions_of)
        self.check_security()
        self._check_listeners()

    @property
    def release(self) -> str | None:
        """The release of Kafka whose API versions are supported, or None for all versions."""
        return None if self.api_versions_of is None else known_release(self.api_versions_of)

    @property
    def has_transaction_version(self) -> bool:
        """True if the broker has the feature transaction.version."""
        return self.release is None or has_transaction_version(self.release)

    @property
    def transaction_level(self) -> int:
        """The finalized level of transaction.version."""
        return self.transaction_version if self.has_transaction_version else 0

    def advertised(self, ports: dict[int, int]) -> dict[int, tuple[str, int]]:
        """Return the advertised host and port of each node, by node id.

        `ports` are the ports on which the nodes listen, by node id.
        """
        if self.advertised_listeners is None:
            return {node: (self.host, port) for node, port in ports.items()}
        return dict(zip(ports, _split_addresses(self.advertised_listeners), strict=True))

    @property
    def certificate_hosts(self) -> tuple[str, ...]:
        """The hosts for the broker's certificate, which are all hosts that clients can use."""
        names = [*_LOCAL_HOSTS, self.host]
        if self.advertised_listeners is not None:
            names += [host for host, _ in _split_addresses(self.advertised_listeners)]
        return tuple(dict.fromkeys(name for name in names if name not in _ANY))

    def _check_replication(self) -> None:
        factors = {"replication_factor": self.replication_factor} | {
            f"the replication factor of {topic}": number
            for topic, number in self.replication_factors.items()
        }
        for name, number in factors.items():
            if not 1 <= number <= self.nodes:
                raise ConfigError(
                    f"{name} is {number}",
                    hint=f"It must be 1 to {self.nodes}, the number of nodes.",
                )

    def _check_listeners(self) -> None:
        """Check that every node has an address that can be advertised to clients."""
        try:
            self.host.encode("idna")
        except UnicodeError as error:
            raise ConfigError(
                f"the embedded broker cannot listen on {self.host}:{self.port}: it is not a valid "
                "host name",
                hint="Set host to an address of this machine.",
            ) from error
        if self.advertised_listeners is None:
            if self.host in _ANY:
                raise ConfigError(
                    f"host {self.host or chr(39) * 2} cannot be advertised to clients",
                    hint="Set advertised_listeners (--advertised-listeners) to the host:port that "
                    "clients connect to.",
                )
            return
        addresses = _split_addresses(self.advertised_listeners)
        if len(addresses) != self.nodes:
            raise ConfigError(
                f"advertised_listeners has {len(addresses)} addresses for {self.nodes} nodes",
                hint="Specify one host:port per node, in order of node ids, separated by commas.",
            )
        if others := secured_protocols(self.advertised_listeners) - {self.protocol}:
            raise ConfigError(
                f"advertised_listeners uses {min(others)}, but the broker's protocol is "
                f"{self.protocol}",
                hint="Remove the protocol prefixes; tls and sasl determine the broker's protocol.",
            )
