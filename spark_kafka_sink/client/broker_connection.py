"""A broker as this process sees it: its connection and socket, its addresses, its failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.connection import Connection, State
from spark_kafka_sink.client.transport import MAX_BUFFERS
from spark_kafka_sink.common.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.client.connection import InFlightRequest, Request
    from spark_kafka_sink.client.resolver import Address
    from spark_kafka_sink.client.transport import Transport

CLOSED_IN_HANDSHAKE = (
    "the server closed the connection before it answered ApiVersions: "
    "is it a Kafka broker, and is its listener PLAINTEXT and not TLS or SASL?"
)


@dataclass(slots=True)
class BrokerConnection:
    """Everything about one broker; times in seconds of the monotonic clock.

    `failures` counts connection attempts since the last that worked; until `retry_at` there is no
    new one. `throttled_until` is what the broker asked for (KIP-219).
    """

    node: Node
    client_id: str
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

    def __post_init__(self) -> None:
        self.connection = Connection(self.client_id)

    @property
    def is_ready(self) -> bool:
        """Requests may be sent."""
        return self.connection.state is State.READY

    @property
    def is_idle(self) -> bool:
        """Connected, and nothing is in flight: a broker may close it without being asked."""
        connection = self.connection
        return self.is_ready and not (connection.in_flight or connection.out or connection.silent)

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

    def send(self, request: Request, now: float) -> InFlightRequest:
        """Queue a request and write what the socket takes; raises OSError if it is gone."""
        flight = self.connection.enqueue(request, now)
        self.last_used = now
        self.flush()
        return flight

    def flush(self) -> None:
        """Write until the socket is full or nothing is left; raises OSError if it is gone."""
        connection, transport = self.connection, self.transport
        while connection.out and transport is not None:
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
        while self.transport is not None and (data := self._read()) is not None:
            if not data:
                raise ConnectionResetError(self._why_closed())
            self.bytes_in += len(data)
            yield from self.connection.received(data, now)
            self.last_used = now
        self.flush()

    def take_over(self) -> list[InFlightRequest]:
        """Forget the connection; the requests that will get no answer any more."""
        in_flight = [*self.connection.in_flight, *self.connection.silent]
        # The connection's own ApiVersions request has no context: nobody waits for it.
        lost = [asked for asked in in_flight if asked.request.context is not None]
        if self.transport is not None:
            self.transport.close()
        self.transport = None
        self.connection = Connection(self.client_id)
        return lost

    def _read(self) -> bytes | None:
        """Bytes that have arrived; a server that expects TLS often resets the connection."""
        assert self.transport is not None
        try:
            return self.transport.read()
        except ConnectionResetError as error:
            if self.connection.state is not State.NEGOTIATING:
                raise
            raise ConnectionResetError(CLOSED_IN_HANDSHAKE) from error

    def _why_closed(self) -> str:
        if self.connection.state is State.NEGOTIATING:
            return CLOSED_IN_HANDSHAKE
        return "the broker closed the connection"


def reason_of(error: Exception) -> str:
    """Why a connection ended, in words for the user."""
    if isinstance(error, ProtocolError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
