"""The settings of a broker that have the same names and values in Python and on the command line.

Their descriptions are the help of `kafkaprod broker`, and the table in docs/broker.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spark_kafka_sink.broker.security.plain_and_scram import MIN_SCRAM_ITERATIONS

HELP = "help"
"""Key of a field's metadata for its description."""
MINIMUM = "minimum"
"""Key of a field's metadata for the smallest allowed number."""
LOG = "log"
"""The storage type of Kafka's segmented logs, in memory or in a data folder."""
_MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default for message.max.bytes: 1 MiB plus 12 bytes for the log overhead."""
PORT_HELP = "Port of the first broker; the others use the next ones. 0: free ports."


def _setting(default: Any, help_text: str, minimum: int | None = None, **settings: Any) -> Any:
    metadata = {HELP: help_text, MINIMUM: minimum}
    return field(default=default, metadata=metadata, **settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLineSettings:
    """Settings of an embedded broker that are numbers and texts."""

    port: int = _setting(0, PORT_HELP)
    host: str = _setting(
        "127.0.0.1", "Address to listen on, also advertised unless advertised listeners are set."
    )
    advertised_listeners: str | None = _setting(
        None, "Advertised listeners: host:port of each broker, separated by commas."
    )
    nodes: int = _setting(1, "Number of brokers, which share the partitions.", 1)
    auto_create_topics: bool = _setting(False, "Create missing topics when a client requests them.")
    default_partitions: int = _setting(1, "Default number of partitions for new topics.", 1)
    replication_factor: int = _setting(1, "Default replication factor for new topics.")
    message_max_bytes: int = _setting(
        _MAX_MESSAGE_BYTES, "Maximum size of a batch in bytes, including its header.", 61
    )
    cluster_id: str = _setting("kafkaprod-embedded-00", "Cluster id.")
    transaction_version: int = _setting(
        2, "Level of the feature transaction.version, 0 to 2; 2: transactions V2."
    )
    api_versions_of: str | None = _setting(
        None,
        "Kafka release to emulate, such as 2.8: support only its API versions. Transactions V2 "
        "require 4.0 or later.",
    )
    transaction_max_timeout_ms: int = _setting(
        900_000, "Maximum transaction timeout that a producer may request.", 1
    )
    transactional_id_expiration_ms: int = _setting(
        604_800_000, "Idle time after which a transactional id expires.", 1
    )
    replica_lag_time_max_ms: int = _setting(
        30_000, "Maximum time that a follower can lag and still remain in the ISR.", 0
    )
    session_timeout_ms: int = _setting(
        9_000,
        "Time after which other brokers take over the partitions that an unresponsive broker "
        "leads.",
        0,
    )
    group_min_session_timeout_ms: int = _setting(
        6_000, "Minimum session.timeout.ms of a consumer group's members.", 1
    )
    group_max_session_timeout_ms: int = _setting(
        1_800_000, "Maximum session.timeout.ms of a consumer group's members.", 1
    )
    retention_check_ms: int = _setting(300_000, "Interval between retention checks.")
    follower_lag_ms: int = _setting(0, "Simulated replication delay of followers.", 0)
    data_dir: str | None = _setting(
        None, "Directory for logs and all other durable state; default: memory."
    )
    storage: str = _setting(
        LOG,
        "Log storage: log (--data-dir or memory), or redis://host:port/db?prefix=name.",
        repr=False,
    )
    client_certificates: str | None = _setting(
        None, "Client certificates: required, requested or none."
    )
    scram_iterations: int = _setting(MIN_SCRAM_ITERATIONS, "Iterations of SCRAM's key derivation.")
    connections_max_reauth_ms: int = _setting(
        0, "Session lifetime after which clients must reauthenticate; 0: unlimited.", 0
    )
    failed_authentication_delay_ms: int = _setting(
        100, "Delay before the response to a failed login.", 0
    )
    handshake_timeout_ms: int = _setting(
        10_000, "Maximum total duration of the TLS handshake and the SASL login.", 1
    )
