"""Counts and logs what happens on the connections; it never decides anything.

Sender thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.debug_log import Debug
from spark_kafka_sink.metrics.recorder import BrokerMeters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.connection import InFlightRequest


class ConnectionMetrics:
    """`debug` is the client's; `meters` those of the session that the client serves now.

    Between two sessions they are nobody's: the thread of an ended session may read its own.
    """

    def __init__(self, debug: Debug | None = None) -> None:
        self.meters = BrokerMeters()
        self._debug = debug or Debug()

    def opening(self, broker: BrokerConnection, address: object) -> None:
        """A connection is being opened."""
        self.meters.of(broker.node).connects += 1
        if (log_event := self._debug.broker) is not None:
            log_event("connect", broker=broker.node.node_id, node=broker.node, address=address)
        if (log_event := self._debug.security) is not None:
            log_event(
                "protect", broker=broker.node.node_id, protocol="PLAINTEXT", authentication="none"
            )

    def ready(self, broker: BrokerConnection) -> None:
        """The broker has named its versions: requests may be sent."""
        if (log_event := self._debug.broker) is not None:
            apis = len(broker.connection.versions)
            log_event("ready", broker=broker.node.node_id, node=broker.node, apis=apis)

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
