"""A broker as this process sees it: its connection, addresses, failures and metrics.

Counts and logs what happens on the connections; it never decides anything.

Sender thread only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.channel.connection_failures import CLOSED, Circumstances
from spark_kafka_sink.client.channel.resolver import ThreadResolver, literal
from spark_kafka_sink.client.channel.transport import MAX_BUFFERS, State, TcpTransport
from spark_kafka_sink.client.connection import Connection, CorrelationError
from spark_kafka_sink.common.debug_log import Debug
from spark_kafka_sink.config.security.model import SecurityConfig
from spark_kafka_sink.metrics.recorder import BrokerMeters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from spark_kafka_sink.client.channel.authenticator import SaslLogin
    from spark_kafka_sink.client.channel.channel_builder import ChannelBuilder
    from spark_kafka_sink.client.channel.resolver import Address, Resolver
    from spark_kafka_sink.client.channel.transport import Transport
    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.client.request import InFlightRequest, Request
    from spark_kafka_sink.config.model import ProducerConfig

    Connect = Callable[[Address, int, int], Transport]
    """Address, bytes of the send buffer, bytes of the receive buffer -> a connecting socket."""


@dataclass(slots=True)
class BrokerConnection:
    """Everything about one broker; times in seconds of the monotonic clock.

    `failures` counts connection attempts since the last that worked; until `retry_at` there is no
    new one. `throttled_until` is what the broker asked for (KIP-219). `login` and `random` are
    what each connection is made with.
    """

    node: Node
    client_id: str
    login: SaslLogin | None = None
    random: Random | None = None
    connection: Connection = field(init=False)
    transport: Transport | None = None
    addresses: list[Address] = field(default_factory=list)
    """Those of the name that are still to be tried."""
    address: Address | None = None
    """The one tried last."""
    failures: int = 0
    retry_at: float = 0.0
    connect_by: float = 0.0
    last_used: float = 0.0
    throttled_until: float = 0.0
    bytes_out: int = 0
    """Written since somebody last took note and set it back."""
    bytes_in: int = 0
    wrote_at: float | None = None
    """When bytes were last written; None for a connection that has written none."""
    read_at: float | None = None
    """When bytes were last received; None for a connection that has received none."""
    noted_state: State = State.DISCONNECTED
    """The connection's state when somebody last took note."""
    state_since: float = 0.0
    """When that state was first noted."""
    watched: int = 0
    """What the selector waits for on the transport."""

    def __post_init__(self) -> None:
        self.connection = self._new_connection()

    @property
    def is_ready(self) -> bool:
        """Requests may be sent."""
        return self.connection.state is State.READY

    @property
    def is_idle(self) -> bool:
        """Connected, and nothing is in flight: a broker may close it without being asked."""
        connection = self.connection
        return self.is_ready and not (connection.in_flight or connection.out or connection.silent)

    @property
    def is_writing(self) -> bool:
        """The socket has yet to take bytes of a request."""
        return bool(self.connection.out)

    @property
    def cipher(self) -> str:
        """What encrypts the connection; "" for nothing."""
        return self.transport.cipher if self.transport is not None else ""

    @property
    def wants_write(self) -> bool:
        """Whether to wait until the socket can be written to."""
        connection, transport = self.connection, self.transport
        if connection.state is State.CONNECTING:
            return True
        if transport is None:
            return bool(connection.out)
        return transport.unsent or (bool(connection.out) and not transport.wants_read)

    def is_login_due(self, now: float) -> bool:
        """Whether the broker wants a new login before it takes another request (KIP-368)."""
        due = self.connection.login_due
        return due is not None and now >= due

    def circumstances(self, security: SecurityConfig, *, is_accepted: bool) -> Circumstances:
        """How far the connection has come, for whoever asks why it ended."""
        connection = self.connection
        return Circumstances(
            broker=str(self.node),
            security=security,
            state=connection.state,
            has_answered=connection.has_answered,
            waiting=bool(connection.in_flight),
            is_accepted=is_accepted,
        )

    def resolved(self, addresses: list[Address]) -> None:
        """Take the name's addresses; the one tried last has its turn after the others.

        So that a broken connection leads on to the next address and not to the same one again
        (KAFKA-12193).
        """
        at = addresses.index(self.address) + 1 if self.address in addresses else 0
        self.addresses = addresses[at:] + addresses[:at]

    def next_address(self) -> Address:
        """The address to be tried now."""
        self.address = self.addresses.pop(0)
        return self.address

    def go_on_connecting(self, channels: ChannelBuilder, now: float) -> None:
        """Take the next step on the way from a socket to Kafka's protocol, if it can be taken.

        Raises:
            OSError: the connection was refused, is gone, or its TLS handshake failed.
        """
        connection, transport = self.connection, self.transport
        if transport is None or not transport.finish_connect():
            return
        if connection.state is State.CONNECTING and channels.uses_tls:
            connection.move(State.TLS_HANDSHAKE)
            self.transport = channels.encrypted(transport, self.node.host)
            self.go_on_connecting(channels, now)
            return
        connection.connected(now)
        self.flush()

    def rename(self, client_id: str) -> None:
        """Let the headers of the next requests have this client id."""
        self.client_id = self.connection.client_id = client_id

    def send(self, request: Request, now: float) -> InFlightRequest:
        """Queue a request and write what the socket takes; raises OSError if it is gone."""
        flight = self.connection.enqueue(request, now)
        self.last_used = now
        self.flush()
        return flight

    def flush(self) -> None:
        """Write until the socket is full or nothing is left; raises OSError if it is gone."""
        connection, transport = self.connection, self.transport
        while transport is not None and (connection.out or transport.unsent):
            buffers = [connection.out[i] for i in range(min(len(connection.out), MAX_BUFFERS))]
            written = transport.write(buffers)
            if not written:
                return
            connection.wrote(written)
            self.bytes_out += written

    def receive(self, now: float) -> Iterator[tuple[InFlightRequest, Any]]:
        """Read what has arrived; the requests it answers, also those just before an error.

        Raises:
            OSError: the connection is gone.
            ProtocolError: the bytes are not Kafka's.
        """
        while self.transport is not None and (data := self.transport.read()) is not None:
            if not data:
                raise ConnectionResetError(CLOSED)
            self.bytes_in += len(data)
            yield from self.connection.received(data, now)
            self.last_used = now
        self.flush()

    def owes_since(self) -> float | None:
        """When request.timeout.ms of the oldest request began; None without requests under way.

        A broker that throttles reads nothing until the pause has passed that it asked for.
        """
        oldest = self.connection.oldest_sent()
        return None if oldest is None else max(oldest, self.throttled_until)

    def due(self, patience: float) -> Iterator[float]:
        """When something here may time out, or be tried again; also what is past already.

        Args:
            patience: seconds that a request may wait for its response.
        """
        if self.connect_by:
            yield self.connect_by
        yield self.retry_at
        yield self.throttled_until
        if since := self.owes_since():
            yield since + patience

    def take_over(self) -> list[InFlightRequest]:
        """Forget the connection; the requests that will get no answer any more."""
        in_flight = [*self.connection.in_flight, *self.connection.silent]
        # The connection's own requests have no context: nobody waits for them.
        lost = [asked for asked in in_flight if asked.request.context is not None]
        if self.transport is not None:
            self.transport.close()
        self.transport = None
        self.wrote_at = self.read_at = None
        self.connection = self._new_connection()
        return lost

    def _new_connection(self) -> Connection:
        return Connection(self.client_id, self.login, self.random)


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


class Dialer:
    """Sender thread only.

    Args:
        config: time-outs and buffer sizes.
        metrics: hears of each attempt.
        connect: opens a socket; TCP where None.
        resolver: looks names up; the system's where None.
    """

    def __init__(
        self,
        config: ProducerConfig,
        metrics: ConnectionMetrics,
        connect: Connect | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._connect = connect or TcpTransport
        self._resolver = resolver or ThreadResolver()

    def deadline(self, now: float) -> float:
        """When something must be done that may take socket.connection.setup.timeout.ms."""
        return now + self._config.socket_connection_setup_timeout_ms / 1000

    def open(self, broker: BrokerConnection, now: float, wakeup: Callable[[], None]) -> bool:
        """Begin to connect, to the next address of the name; a name is looked up first.

        Returns whether a socket is connecting; if not, `wakeup` is called once the name is known.

        Raises:
            OSError: it is clear already that nothing can be reached there.
        """
        broker.last_used, broker.connect_by = now, self.deadline(now)
        host, port = broker.node.host, broker.node.port
        addresses = broker.addresses or literal(host, port)
        if addresses is None:
            broker.connection.move(State.RESOLVING)
            self._resolver.ask(host, port, wakeup)
            return False
        broker.addresses = addresses
        self.dial(broker, now)
        return True

    def take_resolved(
        self, brokers: Sequence[BrokerConnection]
    ) -> Iterator[tuple[BrokerConnection, OSError | None]]:
        """The brokers whose names have been looked up, with the error where there is none such."""
        for found in self._resolver.resolutions():
            for broker in brokers:
                if broker.connection.state is not State.RESOLVING:
                    continue
                if (broker.node.host, broker.node.port) == (found.host, found.port):
                    if found.error is None:
                        broker.resolved(found.addresses)
                    yield broker, found.error

    def dial(self, broker: BrokerConnection, now: float) -> None:
        """Begin to connect to the next address; raises OSError where that fails at once."""
        address = broker.next_address()
        broker.connection.move(State.CONNECTING)
        self._metrics.opening(broker, address[1])
        broker.transport = self._connect(
            address, self._config.send_buffer_bytes, self._config.receive_buffer_bytes
        )
        broker.last_used, broker.connect_by = now, self.deadline(now)
