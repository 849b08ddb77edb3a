"""Count and log the events of a client's connections. Used only by the sender thread."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from spark_kafka_sink.common.debug_log import DebugLog
from spark_kafka_sink.config.security.security_config import SecurityConfig
from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
from spark_kafka_sink.kafka.client.connection_protocol import CorrelationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
    from spark_kafka_sink.kafka.client.request import Completion, InFlightRequest


class ConnectionMetrics:
    """Counts and logs the events of all connections.

    `meters` belong to the current session. Between sessions, they are replaced by unused meters,
    because the thread of a completed session might still read that session's meters.

    Args:
        security: the client's security settings, for debug events.
        debug: the client's debug contexts.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        security: SecurityConfig | None = None,
        debug: DebugLog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meters = BrokerMeters()
        self.clock = clock
        self._security = security or SecurityConfig()
        self._debug = debug or DebugLog()

    def on_opening(self, broker: BrokerConnection, address: object) -> None:
        """Count a connection attempt."""
        self.meters.of(broker.node).connects += 1
        if (log_event := self._debug.broker) is not None:
            log_event("connect", broker=broker.node.node_id, node=broker.node, address=address)

    def on_ready(self, broker: BrokerConnection) -> None:
        """Log that a connection is ready after it was opened or after its login was renewed."""
        if (log_event := self._debug.broker) is not None:
            apis = len(broker.versions.ranges)
            log_event("ready", broker=broker.node.node_id, node=broker.node, apis=apis)
        if (log_event := self._debug.security) is not None:
            sasl, due = self._security.sasl, broker.login_due
            log_event(
                "protect",
                broker=broker.node.node_id,
                protocol=self._security.protocol.value,
                cipher=broker.cipher or "none",
                authentication=sasl.mechanism.value if sasl else "none",
                login_again_in_s="never" if due == inf else f"{due - broker.last_used:.3f}",
            )

    def on_sent(self, broker: BrokerConnection, sent: InFlightRequest) -> None:
        """Log a queued request. The socket might have accepted only a part of the request."""
        if (log_event := self._debug.protocol) is not None:
            log_event(
                "send",
                broker=broker.node.node_id,
                correlation=sent.correlation_id,
                api=sent.request.api.name,
                version=sent.request.version,
                bytes=sum(memoryview(part).nbytes for part in sent.request.body),
            )

    def on_response(self, broker: BrokerConnection, sent: InFlightRequest, now: float) -> None:
        """Record the round-trip time of a request and its response."""
        written = sent.written_at or now
        self.meters.of(broker.node).rtt.add_duration(now - written)
        if (log_event := self._debug.protocol) is not None:
            log_event(
                "receive",
                broker=broker.node.node_id,
                correlation=sent.correlation_id,
                api=sent.request.api.name,
                version=sent.request.version,
                rtt_ms=f"{(now - written) * 1000:.3f}",
            )

    def update(self, broker: BrokerConnection) -> None:
        """Count the bytes, requests and responses sent or received since the last call."""
        now = self.clock()
        traffic = broker.take_traffic(now)
        if traffic is None:
            return
        meter = self.meters.of(broker.node)
        for sent in traffic.requests:
            sent.written_at = now
            meter.count_written(sent.request.api, now - sent.sent_at)
        meter.tx_bytes += traffic.bytes_out
        meter.rx_bytes += traffic.bytes_in
        meter.rx += traffic.responses

    def on_unreadable(self, broker: BrokerConnection, error: Exception) -> None:
        """Count an invalid response."""
        meter = self.meters.of(broker.node)
        meter.rx_errors += 1
        meter.correlation_errors += isinstance(error, CorrelationError)

    def on_timed_out(self, broker: BrokerConnection) -> None:
        """Count all requests in flight as timed out, because the oldest one has timed out."""
        self.meters.of(broker.node).timeouts += len(broker.in_flight)

    def on_closed(self, broker: BrokerConnection, reason: str, lost: Sequence[Completion]) -> None:
        """Count a closed connection or failed attempt; `lost` contains the unanswered requests."""
        meter = self.meters.of(broker.node)
        meter.disconnects += 1
        meter.tx_errors += len(lost)
        if (log_event := self._debug.broker) is not None:
            node_id = broker.node.node_id
            numbers = [sent.correlation_id for sent in lost]
            log_event("close", broker=node_id, node=broker.node, lost=numbers, reason=f"{reason!r}")

    def on_throttled(self, broker: BrokerConnection, seconds: float) -> None:
        """Log that the broker throttles the client."""
        if (log_event := self._debug.broker) is not None:
            log_event("throttle", broker=broker.node.node_id, pause_ms=f"{seconds * 1000:.0f}")
