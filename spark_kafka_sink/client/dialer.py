"""Begins connections: a broker's name to addresses, an address to a socket that is connecting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.resolver import ThreadResolver, literal
from spark_kafka_sink.client.channel.state import State
from spark_kafka_sink.client.channel.transport import TcpTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.channel.resolver import Address, Resolver
    from spark_kafka_sink.client.channel.transport import Transport
    from spark_kafka_sink.client.connection_metrics import ConnectionMetrics
    from spark_kafka_sink.config.model import ProducerConfig

    Connect = Callable[[Address, int, int], Transport]
    """Address, bytes of the send buffer, bytes of the receive buffer -> a connecting socket."""


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
