"""Counts and tells what happens on the connections; it never decides anything.

Sender thread only. A session hangs its own meters in here, so that what it counts is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.debug_log import Debug
from spark_kafka_sink.metrics.recorder import BrokerMeters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.connection import InFlight


class ConnectionMetrics:
    """The network's witness; `debug` is the client's."""

    def __init__(self, debug: Debug | None = None) -> None:
        self.meters = BrokerMeters()
        self._debug = debug or Debug()

    def opening(self, link: BrokerConnection, address: object) -> None:
        """A connection is being opened."""
        self.meters.of(link.node).connects += 1
        if (tell := self._debug.broker) is not None:
            tell("connect", broker=link.node.node_id, node=link.node, address=address)
        if (tell := self._debug.security) is not None:
            tell("protect", broker=link.node.node_id, protocol="PLAINTEXT", authentication="none")

    def ready(self, link: BrokerConnection) -> None:
        """The broker has named its versions: requests may be sent."""
        if (tell := self._debug.broker) is not None:
            apis = len(link.connection.versions)
            tell("ready", broker=link.node.node_id, node=link.node, apis=apis)

    def sent(self, link: BrokerConnection, flight: InFlight) -> None:
        """A request was queued, and written as far as the socket took it."""
        self.meters.of(link.node).tx += 1
        if (tell := self._debug.protocol) is not None:
            tell(
                "send",
                broker=link.node.node_id,
                correlation=flight.correlation_id,
                api=flight.request.api.name,
                version=flight.request.version,
                bytes=sum(memoryview(part).nbytes for part in flight.request.body),
            )

    def answered(self, link: BrokerConnection, flight: InFlight, now: float) -> None:
        """The answer to a request has come."""
        written = flight.written_at or now
        self.meters.of(link.node).answered(written - flight.sent_at, now - written)
        if (tell := self._debug.protocol) is not None:
            tell(
                "receive",
                broker=link.node.node_id,
                correlation=flight.correlation_id,
                api=flight.request.api.name,
                version=flight.request.version,
                rtt_ms=f"{(now - written) * 1000:.3f}",
            )

    def moved(self, link: BrokerConnection, now: float) -> None:
        """Bytes may have gone out or come in."""
        link.connection.mark_written(now)
        if link.bytes_out or link.bytes_in:
            meter = self.meters.of(link.node)
            meter.tx_bytes += link.bytes_out
            meter.rx_bytes += link.bytes_in
            link.bytes_out = link.bytes_in = 0

    def timed_out(self, link: BrokerConnection) -> None:
        """The oldest request has waited for request.timeout.ms."""
        self.meters.of(link.node).timeouts += len(link.connection.in_flight)

    def closed(self, link: BrokerConnection, reason: str, lost: Sequence[InFlight]) -> None:
        """A connection, or the attempt to make one, has ended; `lost` requests were under way."""
        meter = self.meters.of(link.node)
        meter.disconnects += 1
        meter.tx_errors += len(lost)
        if (tell := self._debug.broker) is not None:
            node_id, numbers = link.node.node_id, [one.correlation_id for one in lost]
            tell("close", broker=node_id, node=link.node, lost=numbers, reason=f"{reason!r}")

    def throttled(self, link: BrokerConnection, seconds: float) -> None:
        """The broker asked for a pause."""
        if (tell := self._debug.broker) is not None:
            tell("throttle", broker=link.node.node_id, pause_ms=f"{seconds * 1000:.0f}")
