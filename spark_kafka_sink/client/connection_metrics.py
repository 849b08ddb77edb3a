"""Counts and logs what happens on the connections; it never decides anything.

Sender thread only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_kafka_sink.client.connection import CorrelationError
from spark_kafka_sink.common.debug_log import Debug
from spark_kafka_sink.config.security.model import SecurityConfig
from spark_kafka_sink.metrics.recorder import BrokerMeters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.request import InFlightRequest


class ConnectionMetrics:
    """`security`, `debug` and `clock` are the client's; `meters` the session's that it serves now.

    Between two sessions they are nobody's: the thread of an ended session may read its own.
    """

    def __init__(
        self,
        security: SecurityConfig | None = None,
        debug: Debug | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meters = BrokerMeters()
        self._clock = clock
        self._security = security or SecurityConfig()
        self._debug = debug or Debug()

    def opening(self, broker: BrokerConnection, address: object) -> None:
        """A connection is being opened."""
        self.meters.of(broker.node).connects += 1
        self.note_state(broker)
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
        self.meters.of(broker.node).rtt.add_time(now - written)
        if (log_event := self._debug.protocol) is not None:
            log_event(
                "receive",
                broker=broker.node.node_id,
                correlation=flight.correlation_id,
                api=flight.request.api.name,
                version=flight.request.version,
                rtt_ms=f"{(now - written) * 1000:.3f}",
            )

    def moved(self, broker: BrokerConnection) -> None:
        """Count the bytes, requests and responses that went out or came in, if any did."""
        self.note_state(broker)
        if not (broker.bytes_out or broker.bytes_in):
            return
        now, meter = self._clock(), self.meters.of(broker.node)
        if broker.bytes_out:
            broker.wrote_at = now
        if broker.bytes_in:
            broker.read_at = now
        for flight in broker.connection.take_written():
            flight.written_at = now
            meter.written(flight.request.api, now - flight.sent_at)
        meter.tx_bytes += broker.bytes_out
        meter.rx_bytes += broker.bytes_in
        meter.rx += broker.connection.responses
        broker.bytes_out = broker.bytes_in = broker.connection.responses = 0

    def note_state(self, broker: BrokerConnection) -> None:
        """Note when the connection's state has changed."""
        if broker.noted_state is not broker.connection.state:
            broker.noted_state, broker.state_since = broker.connection.state, self._clock()

    def unreadable(self, broker: BrokerConnection, error: Exception) -> None:
        """What the broker sent ends the connection."""
        meter = self.meters.of(broker.node)
        meter.rx_errors += 1
        meter.correlation_errors += isinstance(error, CorrelationError)

    def timed_out(self, broker: BrokerConnection) -> None:
        """The oldest request has waited for request.timeout.ms."""
        self.meters.of(broker.node).timeouts += len(broker.connection.in_flight)

    def closed(
        self, broker: BrokerConnection, reason: str, lost: Sequence[InFlightRequest]
    ) -> None:
        """A connection, or the attempt to make one, has ended; `lost` requests were in flight."""
        self.note_state(broker)
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
