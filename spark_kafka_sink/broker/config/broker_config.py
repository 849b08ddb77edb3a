"""The configuration of an embedded broker: settings, listener addresses and advertised addresses.

Advertised addresses (Kafka's advertised.listeners) differ from the listener addresses if clients
connect through a container's port mapping, NAT or a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from spark_kafka_sink.broker.authorization.denials import parse_denial
from spark_kafka_sink.broker.config.command_line_settings import LOG, MINIMUM, CommandLineSettings
from spark_kafka_sink.broker.config.kafka_releases import has_transaction_version, known_release
from spark_kafka_sink.broker.security.oauthbearer import TokenValidator, validate_unsecured
from spark_kafka_sink.broker.security.plain_and_scram import HASHES, MIN_SCRAM_ITERATIONS
from spark_kafka_sink.broker.security.settings import OAUTHBEARER, PLAIN, ClientAuth, TlsFiles
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.addresses import parse_addresses, secured_protocols

_ANY = frozenset({"", "0.0.0.0", "::"})
"""Wildcard hosts, which mean all addresses of the machine and cannot be advertised."""
_LOOPBACK = "127.0.0.1"
_LOCAL_HOSTS = ("localhost", _LOOPBACK, "::1")
_PASSWORD_MECHANISMS = (PLAIN, *HASHES)
"""The mechanisms that are enabled by default if users have passwords."""
_MECHANISMS = (*_PASSWORD_MECHANISMS, OAUTHBEARER)
_USERS = 'Set users and passwords, as in sasl={"alice": "secret"}, or omit sasl.'


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
class BrokerConfig(CommandLineSettings):
    """Settings of an embedded broker.

    `CommandLineSettings` describes the other settings.

    Raises:
        ConfigError: a value is out of range, or options are incompatible.
    """

    tls: bool | TlsFiles = False
    """True if clients must use TLS; a certificate authority and a certificate are generated, unless
    files are given.
    """
    sasl: Mapping[str, str] | None = field(default=None, repr=False)
    """Passwords by user name; if set, clients must authenticate. A password can be specified as
    ``env:NAME`` or ``file:PATH``.
    """
    sasl_mechanisms: Sequence[str] | None = None
    """The enabled mechanisms. None enables PLAIN and SCRAM if `sasl` is set. OAUTHBEARER does not
    require `sasl`.
    """
    oauthbearer_validator: TokenValidator = validate_unsecured
    """Validates a token and returns its user. The default accepts unsigned tokens."""
    denials: Sequence[str] = ()
    """Rules that deny operations to users, in the format of `kafkaprod broker --deny`."""
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
        self._check_security()
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

    @property
    def client_auth(self) -> ClientAuth:
        """Kafka's ssl.client.auth.

        Raises:
            ConfigError: `client_certificates` is unknown.
        """
        try:
            return ClientAuth(self.client_certificates or "none")
        except ValueError:
            raise ConfigError(
                f"client_certificates is {self.client_certificates}",
                hint="Set required, requested or none.",
            ) from None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled mechanisms; by default, the password mechanisms if there are users."""
        if self.sasl_mechanisms is not None:
            return tuple(self.sasl_mechanisms)
        return _PASSWORD_MECHANISMS if self.sasl else ()

    @property
    def protocol(self) -> str:
        """Kafka's security.protocol."""
        if self.mechanisms:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"

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

    def _check_security(self) -> None:
        if not isinstance(self.tls, (bool, TlsFiles)):
            raise ConfigError(
                f"tls is a {type(self.tls).__name__}",
                hint="Set True, False, or TlsFiles with your own certificate.",
            )
        if self.client_auth is not ClientAuth.NONE and not self.tls:
            raise ConfigError(
                f"client_certificates is {self.client_certificates}, but TLS is not enabled",
                hint="Also set tls.",
            )
        _check_users(self.sasl, self.sasl_mechanisms)
        if unknown := [name for name in self.mechanisms if name not in _MECHANISMS]:
            raise ConfigError(
                f"unknown mechanism {unknown[0]} in sasl_mechanisms",
                hint=f"Mechanisms: {', '.join(_MECHANISMS)}.",
            )
        if self.scram_iterations < MIN_SCRAM_ITERATIONS:
            raise ConfigError(
                f"scram_iterations is {self.scram_iterations}",
                hint=f"Kafka's minimum is {MIN_SCRAM_ITERATIONS}.",
            )
        for denial in self.denials:
            parse_denial(denial)

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


def _check_users(sasl: object, named: Sequence[str] | None) -> None:
    """Check the setting `sasl`.

    Raises:
        ConfigError: the setting is not a mapping of strings, contains an empty name or password,
            or has no users although users are required.
    """
    needs_users = [name for name in named or () if name in _PASSWORD_MECHANISMS]
    if sasl is None and not needs_users:
        return
    if sasl is not None and not isinstance(sasl, Mapping):
        raise ConfigError(f"sasl is a {type(sasl).__name__}, not a dict", hint=_USERS)
    if not sasl and (needs_users or named is None):
        problem = f"sasl_mechanisms contains {needs_users[0]}" if needs_users else "sasl is set"
        raise ConfigError(f"{problem}, but there are no users, so nobody can log in", hint=_USERS)
    for user, password in (sasl or {}).items():
        if not isinstance(user, str) or not isinstance(password, str):
            raise ConfigError("sasl has a user or a password that is not a string", hint=_USERS)
        if not user or not password:
            raise ConfigError(
                "sasl has a user without a name or without a password",
                hint="Kafka's clients require both.",
            )
