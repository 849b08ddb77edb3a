"""A broker as this process sees it: its connection and socket, its addresses, its failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.channel.diagnosis import CLOSED, Circumstances
from spark_kafka_sink.client.channel.state import State
from spark_kafka_sink.client.channel.transport import MAX_BUFFERS
from spark_kafka_sink.client.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from spark_kafka_sink.client.channel.authenticator import SaslLogin
    from spark_kafka_sink.client.channel.channel_builder import ChannelBuilder
    from spark_kafka_sink.client.channel.resolver import Address
    from spark_kafka_sink.client.channel.transport import Transport
    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.client.request import InFlightRequest, Request
    from spark_kafka_sink.config.security.model import SecurityConfig


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
