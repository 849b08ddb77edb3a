"""The options of `kafkaprod broker`, one field each; to typer they are parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from spark_kafka_sink.broker.config import LOG, BrokerConfig
from spark_kafka_sink.cli.broker_security import certificate, token_validator, users
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.config import BrokerOptions

DEFAULTS = BrokerConfig()


class LogLevel(StrEnum):
    """What the broker logs; the names are those of Python's logging."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerArguments:
    """What the command line says."""

    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic as name:partitions[:replicas]; may be given more than once."),
    ] = None
    port: Annotated[int, typer.Option(help="Port of the first node; 0 takes a free one.")] = 9092
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    advertised_listeners: Annotated[
        str | None,
        typer.Option(help="What clients are told instead: host:port of each node, with commas."),
    ] = None
    nodes: Annotated[int, typer.Option(help="Nodes of the cluster, on ports in a row.")] = 1
    auto_create_topics: Annotated[
        bool, typer.Option(help="Create a topic when a client asks for it.")
    ] = DEFAULTS.auto_create_topics
    topic_config: Annotated[
        list[str] | None,
        typer.Option(
            help="A config of a --topic, as events:retention.ms=60000; may be given more than once."
        ),
    ] = None
    default_partitions: Annotated[
        int, typer.Option(help="Partitions of topics that are made without a number.")
    ] = DEFAULTS.default_partitions
    replication_factor: Annotated[
        int, typer.Option(help="Replicas of topics that are made without a number.")
    ] = DEFAULTS.replication_factor
    message_max_bytes: Annotated[int, typer.Option(help="Largest batch taken, in bytes.")] = (
        DEFAULTS.message_max_bytes
    )
    cluster_id: Annotated[str, typer.Option(help="Id that the cluster gives itself.")] = (
        DEFAULTS.cluster_id
    )
    transaction_version: Annotated[
        int, typer.Option(help="Feature transaction.version, 0 to 2; 2 is transactions V2.")
    ] = DEFAULTS.transaction_version
    api_versions_of: Annotated[
        str | None,
        typer.Option(help="A release as 2.8: serve just the versions of APIs that it has."),
    ] = None
    transaction_max_timeout_ms: Annotated[
        int, typer.Option(help="Longest timeout that a transaction may ask for.")
    ] = DEFAULTS.transaction_max_timeout_ms
    transactional_id_expiration_ms: Annotated[
        int, typer.Option(help="Time without use after which a transactional id is forgotten.")
    ] = DEFAULTS.transactional_id_expiration_ms
    replica_lag_time_max_ms: Annotated[
        int, typer.Option(help="Time that a follower in sync may lack something.")
    ] = DEFAULTS.replica_lag_time_max_ms
    session_timeout_ms: Annotated[
        int, typer.Option(help="Time after which a node that hangs loses its leaderships.")
    ] = DEFAULTS.session_timeout_ms
    group_min_session_timeout_ms: Annotated[
        int, typer.Option(help="Shortest session.timeout.ms of a consumer group's member.")
    ] = DEFAULTS.group_min_session_timeout_ms
    group_max_session_timeout_ms: Annotated[
        int, typer.Option(help="Longest session.timeout.ms of a consumer group's member.")
    ] = DEFAULTS.group_max_session_timeout_ms
    retention_check_ms: Annotated[
        int, typer.Option(help="Time between two looks for segments that retention drops.")
    ] = DEFAULTS.retention_check_ms
    follower_lag_ms: Annotated[
        int, typer.Option(help="How much later than the leader its followers have a record.")
    ] = 0
    data_dir: Annotated[
        str | None,
        typer.Option(help="Folder for logs and offsets that the next start finds again."),
    ] = None
    storage: Annotated[
        str,
        typer.Option(
            help="Where logs lie: log (--data-dir or memory), or redis://host:port/db?prefix=name."
        ),
    ] = LOG
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="What is to go wrong, as produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5; "
            "may be given more than once."
        ),
    ] = None

    tls: Annotated[
        bool, typer.Option(help="Speak TLS, with a certificate of the broker's own authority.")
    ] = False
    ca_file: Annotated[
        str | None,
        typer.Option(help="Where to write the authority's certificate, which clients trust."),
    ] = None
    tls_certificate: Annotated[
        str | None, typer.Option(help="PEM file of a certificate to use instead, with its chain.")
    ] = None
    tls_key: Annotated[str | None, typer.Option(help="PEM file of that certificate's key.")] = None
    tls_key_password: Annotated[
        str | None, typer.Option(help="Of that key: env:VARIABLE or file:PATH.")
    ] = None
    tls_ca: Annotated[
        str | None, typer.Option(help="PEM file of the authority that signed that certificate.")
    ] = None
    client_certificates: Annotated[
        str | None, typer.Option(help="Clients' certificates: required, requested or none.")
    ] = None
    sasl_user: Annotated[
        list[str] | None,
        typer.Option(
            help="A user as alice=env:VARIABLE or alice=file:PATH, which hold the password; may be "
            "given more than once."
        ),
    ] = None
    sasl_mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; may be given more than once."
        ),
    ] = None
    scram_iterations: Annotated[int, typer.Option(help="Iterations of SCRAM's key derivation.")] = (
        DEFAULTS.scram_iterations
    )
    oauthbearer_jwks: Annotated[
        str | None,
        typer.Option(
            help="File with the keys of an issuer of tokens; without it unsigned ones are believed."
        ),
    ] = None
    connections_max_reauth_ms: Annotated[
        int, typer.Option(help="Length of a session, after which clients log in again; 0 for ever.")
    ] = DEFAULTS.connections_max_reauth_ms
    failed_authentication_delay_ms: Annotated[
        int, typer.Option(help="Time before a client hears that its login failed.")
    ] = DEFAULTS.failed_authentication_delay_ms
    handshake_timeout_ms: Annotated[
        int, typer.Option(help="Time that TLS's handshake and SASL together may take.")
    ] = DEFAULTS.handshake_timeout_ms
    deny: Annotated[
        list[str] | None,
        typer.Option(
            help="What a user may not do, as alice:Write:topic=x or alice:IdempotentWrite; may be "
            "given more than once."
        ),
    ] = None

    log_level: Annotated[
        LogLevel, typer.Option(help="What is logged on stderr: refused requests are warnings.")
    ] = LogLevel.WARNING

    def options(self) -> BrokerOptions:
        """The same for `EmbeddedBroker`.

        Raises:
            ConfigError: a topic, a config of one, or a user can't be read.
        """
        topics = [TopicArgument.parse(text) for text in self.topic or ()]
        return {
            "topics": {one.name: one.partitions for one in topics},
            "replication_factors": {one.name: one.replicas for one in topics if one.replicas},
            "port": self.port,
            "host": self.host,
            "advertised_listeners": self.advertised_listeners,
            "nodes": self.nodes,
            "auto_create_topics": self.auto_create_topics,
            "follower_lag_ms": self.follower_lag_ms,
            "data_dir": self.data_dir,
            "storage": self.storage,
            "faults": tuple(self.fault or ()),
            "topic_configs": _topic_configs(self.topic_config or ()),
            "default_partitions": self.default_partitions,
            "replication_factor": self.replication_factor,
            "message_max_bytes": self.message_max_bytes,
            "cluster_id": self.cluster_id,
            "transaction_version": self.transaction_version,
            "api_versions_of": self.api_versions_of,
            "transaction_max_timeout_ms": self.transaction_max_timeout_ms,
            "transactional_id_expiration_ms": self.transactional_id_expiration_ms,
            "replica_lag_time_max_ms": self.replica_lag_time_max_ms,
            "session_timeout_ms": self.session_timeout_ms,
            "group_min_session_timeout_ms": self.group_min_session_timeout_ms,
            "group_max_session_timeout_ms": self.group_max_session_timeout_ms,
            "retention_check_ms": self.retention_check_ms,
            "tls": certificate(
                tls=self.tls,
                certificate=self.tls_certificate,
                key=self.tls_key,
                ca=self.tls_ca,
                password=self.tls_key_password,
            ),
            "client_certificates": self.client_certificates,
            "sasl": users(self.sasl_user or ()) or None,
            "sasl_mechanisms": self.sasl_mechanism,
            "scram_iterations": self.scram_iterations,
            "oauthbearer_validator": token_validator(self.oauthbearer_jwks),
            "connections_max_reauth_ms": self.connections_max_reauth_ms,
            "failed_authentication_delay_ms": self.failed_authentication_delay_ms,
            "handshake_timeout_ms": self.handshake_timeout_ms,
            "denials": tuple(self.deny or ()),
        }


@dataclass(frozen=True, slots=True)
class TopicArgument:
    """A topic to begin with; 0 replicas stand for the broker's default."""

    name: str
    partitions: int = 1
    replicas: int = 0

    @classmethod
    def parse(cls, text: str) -> TopicArgument:
        """Read name, name:partitions or name:partitions:replicas.

        Raises:
            ConfigError: it is none of them.
        """
        name, *numbers = text.split(":")
        good = name and len(numbers) <= 2 and all(n.isdecimal() and int(n) for n in numbers)
        if not good:
            raise ConfigError(
                f"--topic {text} is not a topic",
                hint="Write it as name:partitions or name:partitions:replicas",
            )
        return cls(name, *map(int, numbers))


def _topic_configs(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        topic, _, setting = text.partition(":")
        name, equals, value = setting.partition("=")
        if not (topic and name and equals):
            raise ConfigError(
                f"--topic-config {text} is not a config of a topic",
                hint="Write it as topic:name=value, for instance events:retention.ms=60000",
            )
        found.setdefault(topic, {})[name] = value
    return found
