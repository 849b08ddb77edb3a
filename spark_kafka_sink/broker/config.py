"""Configuration of an embedded broker: its listeners and settings.

Where each node listens, and the address that clients are told (Kafka's advertised.listeners).

The two differ where a container, NAT or a proxy stands between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from spark_kafka_sink.broker.releases import has_transaction_version, known_release
from spark_kafka_sink.broker.security.acl import parse_denial
from spark_kafka_sink.broker.security.oauthbearer import validate_unsecured
from spark_kafka_sink.broker.security.settings import (
    MIN_SCRAM_ITERATIONS,
    SecuritySettings,
    TlsFiles,
    client_auth,
    mechanisms,
    users,
)
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.addresses import parse_addresses, secured_protocols

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.broker.security.oauthbearer import TokenValidator


_ANY = frozenset({"", "0.0.0.0", "::"})
"""Hosts that mean every address of the machine: nobody can connect to them from elsewhere."""
_LOOPBACK = "127.0.0.1"
_ALWAYS = ("localhost", _LOOPBACK, "::1")


def check_listeners(host: str, advertised_listeners: str | None, nodes: int) -> None:
    """See whether clients can be told an address of each node.

    Raises:
        ConfigError: the host is none that can be announced, or the addresses are not one a node.
    """
    if advertised_listeners is None:
        if host in _ANY:
            raise ConfigError(
                f"host {host or chr(39) * 2} can't be announced to clients",
                hint="Say with advertised_listeners (--advertised-listeners) what host:port "
                "clients reach it at",
            )
        return
    told = parse_addresses(advertised_listeners, "advertised_listeners")
    if len(told) != nodes:
        raise ConfigError(
            f"advertised_listeners has {len(told)} addresses for {nodes} nodes",
            hint="Give one host:port for each node, in their order, separated by commas",
        )


def check_protocols(advertised_listeners: str | None, protocol: str) -> None:
    """See whether the addresses promise clients what the broker speaks.

    Raises:
        ConfigError: an address has another protocol before it, as in SASL_SSL://host:port.
    """
    others = secured_protocols(advertised_listeners or "") - {protocol}
    if others:
        raise ConfigError(
            f"advertised_listeners has {min(others)}, but the broker speaks {protocol}",
            hint="Leave the protocols out, and say with tls and sasl what the broker speaks",
        )


def advertised(
    host: str, advertised_listeners: str | None, ports: dict[int, int]
) -> dict[int, tuple[str, int]]:
    """What clients are told of each node; `ports` are those that the nodes listen on."""
    if advertised_listeners is None:
        return {node: (host, port) for node, port in ports.items()}
    told = parse_addresses(advertised_listeners, "advertised_listeners")
    return {node: _split(address) for node, address in zip(ports, told, strict=True)}


def reachable(host: str) -> str:
    """A host to connect to from this machine, for one that is listened on."""
    return _LOOPBACK if host in _ANY else host


def certificate_hosts(host: str, advertised_listeners: str | None) -> tuple[str, ...]:
    """Names and addresses that clients may know the nodes by: what a certificate has to say."""
    names = [*_ALWAYS, host]
    if advertised_listeners is not None:
        told = parse_addresses(advertised_listeners, "advertised_listeners")
        names += [_split(address)[0] for address in told]
    return tuple(dict.fromkeys(name for name in names if name not in _ANY))


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default of message.max.bytes: a batch of 1 MiB and its 12 bytes of log overhead."""

_LOWEST = {
    "nodes": 1,
    "default_partitions": 1,
    "message_max_bytes": 61,
    "group_min_session_timeout_ms": 1,
    "group_max_session_timeout_ms": 1,
    "transaction_max_timeout_ms": 1,
    "transactional_id_expiration_ms": 1,
}


LOG = "log"
"""The storage that is Kafka's own: segments of batches."""


class BrokerOptions(TypedDict, total=False):
    """The keywords of `EmbeddedBroker`; see `BrokerConfig` for their meaning."""

    topics: Mapping[str, int]
    topic_configs: Mapping[str, Mapping[str, str]]
    replication_factors: Mapping[str, int]
    replication_factor: int
    follower_lag_ms: int
    replica_lag_time_max_ms: int
    session_timeout_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    transaction_version: int
    api_versions_of: str | None
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    faults: Sequence[str]
    nodes: int
    host: str
    advertised_listeners: str | None
    port: int
    default_partitions: int
    auto_create_topics: bool
    message_max_bytes: int
    cluster_id: str
    data_dir: str | None
    storage: str
    retention_check_ms: int
    tls: bool | TlsFiles
    client_certificates: str | None
    sasl: Mapping[str, str] | None
    sasl_mechanisms: Sequence[str] | None
    scram_iterations: int
    oauthbearer_validator: TokenValidator
    connections_max_reauth_ms: int
    failed_authentication_delay_ms: int
    handshake_timeout_ms: int
    denials: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of an embedded broker.

    Args:
        topics: topics to begin with, and how many partitions each has.
        topic_configs: topic-level configs (Kafka's names) by topic.
        replication_factors: how many nodes have a copy, by topic of `topics`.
        replication_factor: Kafka's default.replication.factor, where nothing else is said.
        follower_lag_ms: how much later than the leader followers have a record.
        replica_lag_time_max_ms: a follower that lacks something for longer is not in sync.
        session_timeout_ms: a node that hangs for so long loses its leaderships.
        group_min_session_timeout_ms: the shortest session.timeout.ms a group's member may ask for.
        group_max_session_timeout_ms: the longest one.
        transaction_version: Kafka's feature of that name; 2 lets clients use transactions V2.
        api_versions_of: a release of Kafka, as "2.8": no versions of APIs but those that it has are
            served, and transactions V2 only since 4.0; None serves all.
        transaction_max_timeout_ms: the longest timeout that a transaction may ask for.
        transactional_id_expiration_ms: a transactional id without use for so long is forgotten.
        faults: faults to begin with, as `kafkaprod broker --fault` takes them.
        nodes: how many brokers the cluster has; partitions are spread over them.
        host: the address to listen on, and to announce if nothing else is.
        advertised_listeners: what clients are told instead: host:port of each node, with commas.
        port: the first node's port, the others follow; 0 takes any free port for each.
        default_partitions: Kafka's num.partitions, for topics made without a number.
        auto_create_topics: whether asking for an unknown topic's metadata creates it.
        message_max_bytes: the largest batch taken, in bytes with its header.
        cluster_id: the id that the cluster gives itself.
        storage: where logs lie: "log" is a data folder or memory, ``redis://host:port/db?prefix=…``
            a Redis, which keeps all else that a restart must find, too.
        data_dir: a folder for logs and all else that a restart must find; in memory without one.
        retention_check_ms: log.retention.check.interval.ms.
        tls: whether clients have to speak TLS: True makes an authority and a certificate.
        client_certificates: Kafka's ssl.client.auth: "required", "requested", or None.
        sasl: names and passwords of users, who have to authenticate then. A password may be
            ``env:NAME`` or ``file:PATH``.
        sasl_mechanisms: the mechanisms that are served; None for PLAIN and SCRAM if there are
            users. OAUTHBEARER needs no users.
        scram_iterations: of SCRAM's key derivation.
        oauthbearer_validator: says whose a token is; by default tokens that nobody signed are
            believed.
        connections_max_reauth_ms: sessions last so long before a client has to authenticate again
            (KIP-368); 0 for ever.
        failed_authentication_delay_ms: connection.failed.authentication.delay.ms.
        handshake_timeout_ms: how long TLS's handshake and SASL together may take.
        denials: what users may not do, as `kafkaprod broker --deny` takes it.

    Raises:
        ConfigError: a number is out of range.
    """

    topics: Mapping[str, int] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    replication_factors: Mapping[str, int] = field(default_factory=dict)
    replication_factor: int = 1
    follower_lag_ms: int = 0
    replica_lag_time_max_ms: int = 30_000
    session_timeout_ms: int = 9_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    transaction_version: int = 2
    api_versions_of: str | None = None
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    faults: Sequence[str] = ()
    nodes: int = 1
    host: str = "127.0.0.1"
    advertised_listeners: str | None = None
    port: int = 0
    default_partitions: int = 1
    auto_create_topics: bool = False
    message_max_bytes: int = MAX_MESSAGE_BYTES
    cluster_id: str = "kafkaprod-embedded-00"
    storage: str = field(default=LOG, repr=False)
    data_dir: str | None = None
    retention_check_ms: int = 300_000
    tls: bool | TlsFiles = False
    client_certificates: str | None = None
    sasl: Mapping[str, str] | None = field(default=None, repr=False)
    sasl_mechanisms: Sequence[str] | None = None
    scram_iterations: int = MIN_SCRAM_ITERATIONS
    oauthbearer_validator: TokenValidator = validate_unsecured
    connections_max_reauth_ms: int = 0
    failed_authentication_delay_ms: int = 100
    handshake_timeout_ms: int = 10_000
    denials: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if value < lowest:
                raise ConfigError(f"{name} is {value}", hint=f"It must be at least {lowest}")
        self._check_copies()
        if unknown := self.topic_configs.keys() - self.topics.keys():
            raise ConfigError(
                f"there are configs of a topic that is not made: {', '.join(sorted(unknown))}",
                hint="Name it among the topics to begin with",
            )
        if self.storage != LOG and self.data_dir is not None:
            raise ConfigError(
                "there are both data_dir and another storage than log", hint="Give one of them"
            )
        if self.transaction_version not in {0, 1, 2}:
            raise ConfigError(
                f"transaction_version is {self.transaction_version}", hint="There are 0, 1 and 2"
            )
        if not 0 <= self.port <= 65_535 - (self.nodes if self.port else 0):
            raise ConfigError(f"port is {self.port}", hint="0 takes any free port")
        if self.api_versions_of is not None:
            known_release(self.api_versions_of)
        check_listeners(self.host, self.advertised_listeners, self.nodes)
        check_protocols(self.advertised_listeners, self.security.protocol)

    @property
    def security(self) -> SecuritySettings:
        """What of this is about TLS and SASL.

        Raises:
            ConfigError: it can't be had.
        """
        return SecuritySettings(
            hosts=certificate_hosts(self.host, self.advertised_listeners),
            tls=self.tls,
            client_auth=client_auth(self.client_certificates),
            passwords=users(self.sasl, self.sasl_mechanisms),
            mechanisms=mechanisms(self.sasl or {}, self.sasl_mechanisms),
            scram_iterations=self.scram_iterations,
            token_validator=self.oauthbearer_validator,
            max_reauth_ms=self.connections_max_reauth_ms,
            failure_delay_ms=self.failed_authentication_delay_ms,
            handshake_timeout_ms=self.handshake_timeout_ms,
            denials=tuple(map(parse_denial, self.denials)),
        )

    @property
    def release(self) -> str | None:
        """The release whose versions are served, as the table has it; None for all versions."""
        return None if self.api_versions_of is None else known_release(self.api_versions_of)

    @property
    def has_transaction_version(self) -> bool:
        """Whether there is a feature transaction.version at all."""
        return self.release is None or has_transaction_version(self.release)

    @property
    def transaction_level(self) -> int:
        """At which level transaction.version is finalized."""
        return self.transaction_version if self.has_transaction_version else 0

    def _check_copies(self) -> None:
        factors = {"replication_factor": self.replication_factor} | {
            f"the replication factor of {topic}": number
            for topic, number in self.replication_factors.items()
        }
        for name, number in factors.items():
            if not 1 <= number <= self.nodes:
                raise ConfigError(
                    f"{name} is {number}", hint=f"It must be 1 to {self.nodes}, the nodes there are"
                )
        for name in ("follower_lag_ms", "replica_lag_time_max_ms", "session_timeout_ms"):
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}", hint="It must not be negative"
                )
