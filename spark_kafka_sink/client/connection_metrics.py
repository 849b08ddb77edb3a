"""Counts and logs what happens on the connections; it never decides anything.

Sender thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.debug_log import Debug
from spark_kafka_sink.config.security.model import SecurityConfig
from spark_kafka_sink.metrics.recorder import BrokerMeters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.request import InFlightRequest


class ConnectionMetrics:
    """`security` and `debug` are the client's; `meters` the session's that it serves now.

    Between two sessions they are nobody's: the thread of an ended session may read its own.
    """

    def __init__(self, security: SecurityConfig | None = None, debug: Debug | None = None) -> None:
        self.meters = BrokerMeters()
        self._security = security or SecurityConfig()
        self._debug = debug or Debug()

    def opening(self, broker: BrokerConnection, address: object) -> None:
        """A connection is being opened."""
        self.meters.of(broker.node).connects += 1
        if (log_event := self._debug.broker) is not None:
            log_event("connect", broker=broker.node.node_id, node=broker.node, address=address)

    def ready(self, broker: BrokerConnection) -> None:
        """Requests may be sent: for the first time on a connection, or after another login."""
        if (log_event := self._debug.broker) is not None:
            apis = len(broker.connection.versions)
            log_event("ready", broker=broker.node.node_id, node=broker.node, apis=apis)
        if (log_event := self._debug.security) is not None:
            sasl, due = self._security.sasl, broker.connection.login_due
            log_event(
                "protect",
                broker=broker.node.node_id,
                protocol=self._security.protocol.value,
                cipher=broker.cipher or "none",
                authentication=sasl.mechanism.value if sasl else "none",
                login_again_in_s="never" if due is None else f"{due - broker.last_used:.3f}",
            )

    def sent(self, broker: BrokerConnection, flight: InFlightRequest) -> None:
        """A request was queued, and written as far as the socket took it."""
        self.meters.of(broker.node).tx += 1
        if (log_event := self._debug.protocol) is not None:
            log_event(
                "send",
                broker=broker.node.node_id,
                correlation=flight.correlation_id,
                api=flight.request.api.name,
                version=flight.request.version,
                bytes=sum(memoryview(part).nbytes for part in flight.request.body),
            )

    def answered(self, broker: BrokerConnection, flight: InFlightRequest, now: float) -> None:
        """The answer to a request has come."""
        written = flight.written_at or now
        self.meters.of(broker.node).answered(written - flight.sent_at, now - written)
        if (log_event := self._debug.protocol) is not None:
            log_event(
                "receive",
                broker=broker.node.node_id,
                correlation=flight.correlation_id,
                api=flight.request.api.name,
                version=flight.request.version,
                rtt_ms=f"{(now - written) * 1000:.3f}",
            )

    def moved(self, broker: BrokerConnection, now: float) -> None:
        """Bytes may have gone out or come in."""
        broker.connection.mark_written(now)
        if broker.bytes_out or broker.bytes_in:
            meter = self.meters.of(broker.node)
            meter.tx_bytes += broker.bytes_out
            meter.rx_bytes += broker.bytes_in
            broker.bytes_out = broker.bytes_in = 0

    def timed_out(self, broker: BrokerConnection) -> None:
        """The oldest request has waited for request.timeout.ms."""
        self.meters.of(broker.node).timeouts += len(broker.connection.in_flight)

    def closed(
        self, broker: BrokerConnection, reason: str, lost: Sequence[InFlightRequest]
    ) -> None:
        """A connection, or the attempt to make one, has ended; `lost` requests were in flight."""
        meter = self.meters.of(broker.node)
        meter.disconnects += 1
        meter.tx_errors += len(lost)
        if (log_event := self._debug.broker) is not None:
            node_id, numbers = broker.node.node_id, [one.correlation_id for one in lost]
            log_event("close", broker=node_id, node=broker.node, lost=numbers, reason=f"{reason!r}")

    def throttled(self, broker: BrokerConnection, seconds: float) -> None:
        """The broker asked for a pause."""
        if (log_event := self._debug.broker) is not None:
            log_event("throttle", broker=broker.node.node_id, pause_ms=f"{seconds * 1000:.0f}")
