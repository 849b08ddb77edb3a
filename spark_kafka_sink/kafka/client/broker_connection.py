"""The connection to one broker, and the metrics of all connections.

- `BrokerConnection` contains a broker's connection, transport, addresses and failures.
- `ConnectionMetrics` counts and logs the events of all connections.

Used only by the sender thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.debug_log import Debug
from spark_kafka_sink.config.security.security_config import SecurityConfig
from spark_kafka_sink.kafka.client.channel.connection_failures import CLOSED, Circumstances
from spark_kafka_sink.kafka.client.channel.transport import MAX_BUFFERS, State, Transport
from spark_kafka_sink.kafka.client.connection import Connection, CorrelationError
from spark_kafka_sink.report.metrics.producer_metrics import BrokerMeters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from spark_kafka_sink.kafka.client.channel.authenticator import SaslLogin
    from spark_kafka_sink.kafka.client.channel.channel_builder import ChannelBuilder
    from spark_kafka_sink.kafka.client.channel.transport import Address
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.client.request import InFlightRequest, Request


@dataclass(slots=True)
class BrokerConnection:
    """The state of one broker. Times are in seconds of the monotonic clock.

    `failures` is the number of failed connection attempts since the last success. The next attempt
    starts at `retry_at` or later. `connect_by` is the deadline of the attempt in progress, or 0 if
    no attempt is in progress. `throttled_until` is the end of the throttling that the broker
    requested (KIP-219). `login`, `random` and `clock` are passed to each new `Connection`.
    """

    node: Node
    client_id: str
    login: SaslLogin | None = None
    random: Random | None = None
    clock: Callable[[], float] = time.monotonic
    connection: Connection = field(init=False)
    transport: Transport | None = None
    addresses: list[Address] = field(default_factory=list)
    """Resolved addresses that have not been tried yet."""
    address: Address | None = None
    """The last address that was tried."""
    failures: int = 0
    retry_at: float = 0.0
    connect_by: float = 0.0
    last_used: float = 0.0
    throttled_until: float = 0.0
    bytes_out: int = 0
    """Bytes written since the last call of `ConnectionMetrics.update`, which resets the count."""
    bytes_in: int = 0
    """Bytes received since the last call of `ConnectionMetrics.update`, which resets the count."""
    wrote_at: float | None = None
    """Time of the connection's last write, or None before the first write."""
    read_at: float | None = None
    """Time of the connection's last read, or None before the first read."""
    watched: int = 0
    """The selector events registered for the transport."""

    def __post_init__(self) -> None:
        self.connection = self._new_connection()

    @property
    def is_ready(self) -> bool:
        """True if requests can be sent."""
        return self.connection.state is State.READY

    @property
    def is_idle(self) -> bool:
        """True if connected, but no requests are in flight. Brokers can close such a connection."""
        connection = self.connection
        return self.is_ready and not (
            connection.in_flight or connection.out or connection.fire_and_forget
        )

    @property
    def is_writing(self) -> bool:
        """True if bytes of a request have not been written yet."""
        return bool(self.connection.out)

    @property
    def cipher(self) -> str:
        """TLS version and cipher suite of the connection, or "" without TLS."""
        return self.transport.cipher if self.transport is not None else ""

    @property
    def wants_write(self) -> bool:
        """True if the selector must wait until the socket is writable."""
        connection, transport = self.connection, self.transport
        if connection.state is State.CONNECTING:
            return True
        if transport is None:
            return bool(connection.out)
        return transport.unsent or (bool(connection.out) and not transport.wants_read)

    def is_login_due(self, now: float) -> bool:
        """Return True if the login must be renewed before the next request (KIP-368)."""
        due = self.connection.login_due
        return due is not None and now >= due

    def circumstances(self, security: SecurityConfig, *, is_accepted: bool) -> Circumstances:
        """Return the progress of the connection, for the diagnosis of a failure."""
        connection = self.connection
        return Circumstances(
            broker=str(self.node),
            security=security,
            state=connection.state,
            has_answered=connection.has_answered,
            waiting=bool(connection.in_flight),
            is_accepted=is_accepted,
        )

    def set_addresses(self, addresses: list[Address]) -> None:
        """Store resolved addresses in the order to try, starting after the last tried address.

        The order prevents retries of the same address after a connection fails (KAFKA-12193).
        """
        at = addresses.index(self.address) + 1 if self.address in addresses else 0
        self.addresses = addresses[at:] + addresses[:at]

    def next_address(self) -> Address:
        """Remove and return the next address to try."""
        self.address = self.addresses.pop(0)
        return self.address

    def continue_connecting(self, channels: ChannelBuilder, now: float) -> None:
        """Continue a connection attempt: first the socket, then TLS, then ApiVersions.

        Raises:
            OSError: the connection was refused or lost, or its TLS handshake failed.
        """
        connection, transport = self.connection, self.transport
        if transport is None or not transport.finish_connect():
            return
        if connection.state is State.CONNECTING and channels.uses_tls:
            connection.move(State.TLS_HANDSHAKE)
            self.transport = channels.encrypted(transport, self.node.host)
            self.continue_connecting(channels, now)
            return
        connection.start_handshake(now)
        self.flush()

    def rename(self, client_id: str) -> None:
        """Set the client id for the headers of later requests."""
        self.client_id = self.connection.client_id = client_id

    def send(self, request: Request, now: float) -> InFlightRequest:
        """Queue a request, and write what the socket accepts; raise OSError if disconnected."""
        flight = self.connection.enqueue(request, now)
        self.last_used = now
        self.flush()
        return flight

    def flush(self) -> None:
        """Write until the socket is full or the queue is empty; raise OSError if disconnected."""
        connection, transport = self.connection, self.transport
        while transport is not None and (connection.out or transport.unsent):
            buffers = [connection.out[i] for i in range(min(len(connection.out), MAX_BUFFERS))]
            written = transport.write(buffers)
            if not written:
                return
            connection.wrote(written)
            self.bytes_out += written

    def receive(self, now: float) -> Iterator[tuple[InFlightRequest, Any]]:
        """Read received bytes; yield the answered requests, even if an error follows.

        Raises:
            OSError: the connection is lost.
            ProtocolError: the bytes are not valid in Kafka's protocol.
        """
        while self.transport is not None and (data := self.transport.read()) is not None:
            if not data:
                raise ConnectionResetError(CLOSED)
            self.bytes_in += len(data)
            yield from self.connection.received(data, now)
            self.last_used = now
        self.flush()

    def waiting_since(self) -> float | None:
        """Return when the oldest request's timeout starts, or None if no request is in flight.

        A broker does not read requests while it throttles the client. Therefore, the timeout starts
        after the throttling ends.
        """
        oldest = self.connection.oldest_sent()
        return None if oldest is None else max(oldest, self.throttled_until)

    def deadlines(self, request_timeout: float) -> Iterator[float]:
        """Yield the times of timeouts and retries, including those in the past.

        Args:
            request_timeout: maximum time in seconds that a request waits for its response.
        """
        if self.connect_by:
            yield self.connect_by
        yield self.retry_at
        yield self.throttled_until
        if since := self.waiting_since():
            yield since + request_timeout

    def reset(self) -> list[InFlightRequest]:
        """Reset the connection and return its unanswered requests."""
        in_flight = [*self.connection.in_flight, *self.connection.fire_and_forget]
        # Handshake requests have no context, because no caller waits for them.
        lost = [flight for flight in in_flight if flight.request.context is not None]
        if self.transport is not None:
            self.transport.close()
        self.transport = None
        self.wrote_at = self.read_at = None
        self.connection = self._new_connection()
        return lost

    def _new_connection(self) -> Connection:
        return Connection(self.client_id, self.login, self.random, self.clock)


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
        debug: Debug | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meters = BrokerMeters()
        self.clock = clock
        self._security = security or SecurityConfig()
        self._debug = debug or Debug()

    def on_opening(self, broker: BrokerConnection, address: object) -> None:
        """Count a connection attempt."""
        self.meters.of(broker.node).connects += 1
        if (log_event := self._debug.broker) is not None:
            log_event("connect", broker=broker.node.node_id, node=broker.node, address=address)

    def on_ready(self, broker: BrokerConnection) -> None:
        """Log that a connection is ready after it was opened or after its login was renewed."""
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

    def on_sent(self, broker: BrokerConnection, flight: InFlightRequest) -> None:
        """Log a queued request. The socket might have accepted only a part of the request."""
        if (log_event := self._debug.protocol) is not None:
            log_event(
                "send",
                broker=broker.node.node_id,
                correlation=flight.correlation_id,
                api=flight.request.api.name,
                version=flight.request.version,
                bytes=sum(memoryview(part).nbytes for part in flight.request.body),
            )

    def on_answered(self, broker: BrokerConnection, flight: InFlightRequest, now: float) -> None:
        """Record the round-trip time of an answered request."""
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

    def update(self, broker: BrokerConnection) -> None:
        """Count the bytes, requests and responses sent or received since the last call."""
        if not (broker.bytes_out or broker.bytes_in):
            return
        now, meter = self.clock(), self.meters.of(broker.node)
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

    def on_unreadable(self, broker: BrokerConnection, error: Exception) -> None:
        """Count an invalid response."""
        meter = self.meters.of(broker.node)
        meter.rx_errors += 1
        meter.correlation_errors += isinstance(error, CorrelationError)

    def on_timed_out(self, broker: BrokerConnection) -> None:
        """Count all requests in flight as timed out, because the oldest one has timed out."""
        self.meters.of(broker.node).timeouts += len(broker.connection.in_flight)

    def on_closed(
        self, broker: BrokerConnection, reason: str, lost: Sequence[InFlightRequest]
    ) -> None:
        """Count a closed connection or failed attempt; `lost` contains the requests in flight."""
        meter = self.meters.of(broker.node)
        meter.disconnects += 1
        meter.tx_errors += len(lost)
        if (log_event := self._debug.broker) is not None:
            node_id, numbers = broker.node.node_id, [flight.correlation_id for flight in lost]
            log_event("close", broker=node_id, node=broker.node, lost=numbers, reason=f"{reason!r}")

    def on_throttled(self, broker: BrokerConnection, seconds: float) -> None:
        """Log that the broker throttles the client."""
        if (log_event := self._debug.broker) is not None:
            log_event("throttle", broker=broker.node.node_id, pause_ms=f"{seconds * 1000:.0f}")
