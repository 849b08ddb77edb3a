"""Open connections: read TLS stores, resolve names, connect, and log in.

Calls that can block run on other threads. The methods raise OSError or KafkaProdError if a
connection cannot be opened. Used only by the sender thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.host_names import literal, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from spark_kafka_sink.config.client_config import ClientConfig
    from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
    from spark_kafka_sink.kafka.client.channel.background import CallResult, Calls
    from spark_kafka_sink.kafka.client.channel.channel_builder import ChannelBuilder
    from spark_kafka_sink.kafka.client.channel.transport import Connect
    from spark_kafka_sink.kafka.client.connection_metrics import ConnectionMetrics

    OpeningStep = Callable[[BrokerConnection, float], None]
    """Continues to open a connection, given the current time."""


@dataclass(kw_only=True, eq=False)
class ConnectionOpener:
    """Opens the connections of a client. The caller waits for their sockets, and closes them."""

    config: ClientConfig
    channels: ChannelBuilder
    metrics: ConnectionMetrics
    wakeup: Callable[[], None]
    """Called on any thread when a call has returned."""
    connect: Connect
    lookups: Calls
    """Resolves host names."""
    logins: Calls
    """Runs login steps, and reads TLS stores."""

    def first_step(self, broker: BrokerConnection, now: float) -> OpeningStep | None:
        """Return the step that connects, or that renews the login, if one of them is due."""
        if broker.state is ChannelState.DISCONNECTED:
            return self._open if now >= broker.attempts.retry_at else None
        return self._renew_login if broker.is_ready and now >= broker.login_due else None

    def continue_login(self, broker: BrokerConnection, now: float) -> None:
        """Run the next step of a login, if any."""
        if (step := broker.next_login_step(self._deadline(now))) is not None:
            self.logins.run(broker.protocol, step, self.wakeup)

    def due_steps(
        self, brokers: Collection[BrokerConnection]
    ) -> Iterator[tuple[BrokerConnection, OpeningStep]]:
        """Yield the connections whose calls have returned, and how each continues."""
        for result in self.lookups.take_results():
            for broker in brokers:
                if broker.state is ChannelState.RESOLVING and _address(broker) == result.owner:
                    yield broker, partial(self._take_addresses, result)
        for result in self.logins.take_results():
            for broker in brokers:
                if broker.protocol is result.owner:
                    yield broker, partial(self._resume, result)

    def cancel(self, broker: BrokerConnection) -> None:
        """Drop the call for a connection that is being closed, if it has not started."""
        self.logins.cancel(broker.protocol)

    def _open(self, broker: BrokerConnection, now: float) -> None:
        """Start to connect; with TLS, reload changed certificate files first."""
        if self.channels.uses_tls:
            broker.start_step(ChannelState.LOADING_STORES, now, self._deadline(now))
            self.logins.run(broker.protocol, self.channels.load_stores, self.wakeup)
        else:
            self._connect_or_resolve(broker, now)

    def _renew_login(self, broker: BrokerConnection, now: float) -> None:
        """Start to log in again, as soon as no request is in flight (KIP-368)."""
        broker.renew_login(self._deadline(now) + self.config.request_timeout_ms / 1000)
        self.continue_login(broker, now)

    def _deadline(self, now: float) -> float:
        """Return the deadline of an action limited by socket.connection.setup.timeout.ms."""
        return now + self.config.socket_connection_setup_timeout_ms / 1000

    def _connect_or_resolve(self, broker: BrokerConnection, now: float) -> None:
        """Connect to the next address of the broker, or resolve its name first."""
        attempts, address = broker.attempts, _address(broker)
        attempts.addresses = attempts.addresses or literal(*address) or []
        if attempts.addresses:
            self._connect_next(broker, now)
        else:
            broker.start_step(ChannelState.RESOLVING, now, self._deadline(now))
            self.lookups.run(address, partial(resolve, *address), self.wakeup)

    def _connect_next(self, broker: BrokerConnection, now: float) -> None:
        address = broker.attempts.next_address()
        broker.start_step(ChannelState.CONNECTING, now, self._deadline(now))
        self.metrics.on_opening(broker, address[1])
        sizes = self.config.send_buffer_bytes, self.config.receive_buffer_bytes
        broker.transport = self.connect(address, *sizes)

    def _take_addresses(self, result: CallResult, broker: BrokerConnection, now: float) -> None:
        """Connect to a broker whose name has been resolved."""
        if isinstance(result.error, OSError):
            raise result.error
        if result.error is not None:
            name = type(result.error).__name__
            raise OSError(f"the name lookup failed with an unexpected {name}")
        broker.attempts.set_addresses(result.value)
        self._connect_next(broker, now)

    def _resume(self, result: CallResult, broker: BrokerConnection, now: float) -> None:
        """Continue with the result of a login step, or after the TLS stores were read."""
        if (failure := result.failure) is not None:
            raise failure
        if broker.state is ChannelState.LOADING_STORES:
            self._connect_or_resolve(broker, now)
        else:
            broker.resume_login(result.value, now)


def _address(broker: BrokerConnection) -> tuple[str, int]:
    return broker.node.host, broker.node.port
