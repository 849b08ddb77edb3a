"""The configuration of a Kafka client, and the options that set it.

The driver, its readers and the producers of tasks connect with the same settings.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.config import enums
from spark_kafka_sink.config.option_definition import (
    Option,
    OptionType,
    boolean_field,
    enum_field,
    int_field,
    long_field,
    option_field,
    text_field,
)
from spark_kafka_sink.config.security.security_config import SecurityConfig

if TYPE_CHECKING:
    from spark_kafka_sink.common.debug_log import DebugContext

DEFAULT_CLIENT_ID = "kafkaprod"
"""client.id if neither the user nor Spark provides a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Options of a client that are set as `kafka.<name>`, and its security settings.

    Fields are named after Java's options and use their units. Only `security` contains secrets, and
    its repr does not show them.
    """

    # Connections
    bootstrap_servers: tuple[str, ...] = option_field(
        Option(OptionType.LIST, "bootstrap.servers", None), default=MISSING
    )
    """Initial brokers to connect to: host:port, separated by commas. Required."""
    client_id: str = text_field("client.id", "")
    """Client id for quotas, metrics and logs of the brokers. Default: kafkaprod-APPLICATION for
    tasks, or kafkaprod-APPLICATION-QUERY for named queries (from spark.app.name and queryName);
    kafkaprod-admin for the driver.
    """
    reconnect_backoff_ms: int = long_field("reconnect.backoff.ms", 50)
    """Longest wait before the first reconnection to a broker; doubled after each attempt. The wait
    is a random part of it.
    """
    reconnect_backoff_max_ms: int = long_field("reconnect.backoff.max.ms", 1_000)
    """Maximum wait between two connection attempts."""
    connections_max_idle_ms: int = long_field("connections.max.idle.ms", 540_000, low=-1)
    """Idle time after which a connection is closed; -1: never."""
    socket_connection_setup_timeout_ms: int = long_field(
        "socket.connection.setup.timeout.ms", 10_000
    )
    """Maximum time to establish a TCP connection."""
    send_buffer_bytes: int = int_field("send.buffer.bytes", 131_072, sink_default=-1, low=-1)
    """Size of the socket's send buffer; -1: the system's default."""
    receive_buffer_bytes: int = int_field("receive.buffer.bytes", 32_768, sink_default=-1, low=-1)
    """Size of the socket's receive buffer; -1: the system's default."""

    # Requests
    request_timeout_ms: int = int_field("request.timeout.ms", 30_000)
    """Maximum time to wait for the response to a request."""
    retry_backoff_ms: int = long_field("retry.backoff.ms", 100)
    """Longest wait before the first retry; doubled after each retry. The wait is a random part of
    it.
    """
    retry_backoff_max_ms: int = long_field("retry.backoff.max.ms", 1_000)
    """Maximum wait between two retries."""

    # Metadata
    allow_auto_create_topics: bool = boolean_field(
        "allow.auto.create.topics", True, is_java_option=False
    )
    """Let the broker create missing topics."""
    metadata_max_age_ms: int = long_field("metadata.max.age.ms", 300_000)
    """Maximum age of metadata (leaders, partitions) before it is refreshed."""
    metadata_recovery_strategy: enums.RecoveryStrategy = enum_field(
        "metadata.recovery.strategy", enums.RecoveryStrategy.REBOOTSTRAP, ignores_case=True
    )
    """Action if no known broker is reachable: start again from bootstrap.servers (rebootstrap),
    or keep trying the known brokers (none).
    """
    metadata_recovery_rebootstrap_trigger_ms: int = long_field(
        "metadata.recovery.rebootstrap.trigger.ms", 300_000
    )
    """Time without a metadata response after which the client starts again from bootstrap.servers.
    """

    # Monitoring
    debug: tuple[DebugContext, ...] = text_field(
        "debug", "", is_java_option=False, field_default=MISSING
    )
    """Debug contexts to log, separated by commas: broker, metadata, topic, queue, msg, protocol,
    eos, security, all. librdkafka's other contexts are accepted.
    """

    security: SecurityConfig = field(default_factory=SecurityConfig)
