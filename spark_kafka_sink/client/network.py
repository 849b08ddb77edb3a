"""All connections of a client behind one selector: the only place that waits for the network.

Used by the sender thread alone; any thread may call `wakeup`, and copy `failures`;
`brokers` and `connected` are lists made for the caller.
Source: ``NetworkClient``, ``ClusterConnectionStates``.
"""

from __future__ import annotations

import selectors
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.backoff import full_jitter
from spark_kafka_sink.client.broker_connection import BrokerConnection, reason_of
from spark_kafka_sink.client.connection import State
from spark_kafka_sink.client.connection_metrics import ConnectionMetrics
from spark_kafka_sink.client.outages import OutageLog
from spark_kafka_sink.client.resolver import ThreadResolver, literal
from spark_kafka_sink.client.transport import TcpTransport
from spark_kafka_sink.common.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.client.connection import InFlightRequest, Request
    from spark_kafka_sink.client.resolver import Address, Resolver
    from spark_kafka_sink.client.transport import Transport
    from spark_kafka_sink.config.model import ProducerConfig

    Connect = Callable[[Address, int, int], Transport]
    """Address, bytes of the send buffer, bytes of the receive buffer -> a connecting socket."""

_TOO_LATE = {
    State.RESOLVING: "no address from the name server within the time allowed",
    State.CONNECTING: "no connection within the time allowed",
    State.NEGOTIATING: "no answer to ApiVersions within the time allowed",
}
"""The time allowed is socket.connection.setup.timeout.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A request that has its answer, or never will: then `failure` says why.

    Both `response` and `failure` are None for a request without a response that was written.
    `latency` is in seconds from sending to answer. `written`: the socket took all of the request.

    A request that was not written whole has had no effect: a broker acts on a frame when it has
    as many bytes as its length says (``NetworkReceive.complete``), and drops one that a
    disconnect cuts short. What is missing never follows, as the connection is closed here, and
    what the socket took says nothing of the bytes it did not take.
    """

    node: Node
    request: Request
    response: Any | None
    failure: str | None
    latency: float
    correlation_id: int = 0
    written: bool = True


class Network:
    """Opens, watches and closes connections; nothing here knows what a request means."""

    def __init__(
        self,
        config: ProducerConfig,
        random: Random,
        connect: Connect = TcpTransport,
        resolver: Resolver | None = None,
        metrics: ConnectionMetrics | None = None,
    ) -> None:
        self.metrics = metrics or ConnectionMetrics()
        self.outages = OutageLog()
        self.failures: dict[str, str] = {}
        """Why the latest attempt failed, by address, until one works there; others may copy it."""
        self._config = config
        self._random = random
        self._connect = connect
        self._resolver = resolver or ThreadResolver()
        self._brokers: dict[int, BrokerConnection] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._done: list[Completion] = []

    def is_ready(self, node: Node, now: float) -> bool:
        """Whether requests can go to this broker, at this address, now."""
        broker = self._brokers.get(node.node_id)
        if broker is None or broker.node != node:
            return False
        return broker.is_ready and now >= broker.throttled_until

    def connect(self, node: Node, now: float) -> None:
        """Begin to connect to this broker, unless that is done, under way, or backing off."""
        broker = self._brokers.get(node.node_id)
        if broker is None or broker.node != node:
            self._forget(node.node_id, "the broker has a new address", now)
            broker = self._brokers[node.node_id] = BrokerConnection(node, self._config.client_id)
        if broker.connection.state is State.DISCONNECTED and now >= broker.retry_at:
            self._open(broker, now)

    def connecting(self, since: float) -> bool:
        """Whether some connection is being opened that was begun after `since`."""
        opening = (State.RESOLVING, State.CONNECTING, State.NEGOTIATING)
        return any(
            broker.connection.state in opening and broker.last_used > since
            for broker in self._brokers.values()
        )

    def can_connect(self, node: Node, now: float) -> bool:
        """Whether a connection to this broker may be begun: there is none, and no back-off."""
        broker = self._brokers.get(node.node_id)
        if broker is None:
            return True
        return broker.connection.state is State.DISCONNECTED and now >= broker.retry_at

    def attempts(self, node: Node) -> int:
        """How often connecting to this broker has failed since it last worked."""
        broker = self._brokers.get(node.node_id)
        return 0 if broker is None else broker.failures

    def in_flight(self, node_id: int) -> int:
        """Requests in flight to a broker."""
        broker = self._brokers.get(node_id)
        if broker is None:
            return 0
        return len(broker.connection.in_flight) + len(broker.connection.silent)

    def waits_since(self, node_id: int) -> float | None:
        """When the request was sent that has waited longest for this broker."""
        broker = self._brokers.get(node_id)
        if broker is None:
            return None
        waiting = (broker.connection.in_flight, broker.connection.silent)
        return min((flights[0].sent_at for flights in waiting if flights), default=None)

    def broker(self, node_id: int) -> BrokerConnection:
        """A broker that `connect` was called for."""
        return self._brokers[node_id]

    def send(self, node_id: int, request: Request, now: float) -> int:
        """Send to a ready broker; a failure shows up as a completion.

        Returns the request's correlation id, 0 where the connection was gone.
        """
        broker = self._brokers[node_id]
        try:
            flight = broker.send(request, now)
        except OSError as error:
            self._fail(broker, error, now)
            return 0
        self.metrics.sent(broker, flight)
        self._watch(broker, now)
        return flight.correlation_id

    def throttle(self, node_id: int, seconds: float, now: float) -> None:
        """Leave a broker alone for so long, as it asked (KIP-219)."""
        if broker := self._brokers.get(node_id):
            broker.throttled_until = max(broker.throttled_until, now + seconds)
            self.metrics.throttled(broker, seconds)

    def disconnect(self, node_id: int, why: str, now: float) -> None:
        """Close a connection; what was in flight there completes without a response."""
        if broker := self._brokers.get(node_id):
            self._fail(broker, ConnectionAbortedError(why), now)

    def poll(self, timeout: float, clock: Callable[[], float]) -> list[Completion]:
        """Wait at most `timeout` seconds for the network; everything that completed since."""
        wait = 0.0 if self._done else max(0.0, timeout)
        for key, events in self._selector.select(wait):
            if key.data is None:
                self._drain_wakeups()
            else:
                self._serve(key.data, events, clock())
        self._take_addresses(clock())
        self._expire(clock())
        done, self._done = self._done, []
        return done

    def next_deadline(self, now: float) -> float:
        """Seconds until something here may time out or be tried again."""
        times = [broker.connect_by for broker in self._brokers.values() if broker.connect_by]
        times += [broker.retry_at for broker in self._brokers.values() if broker.retry_at > now]
        times += [broker.throttled_until for broker in self._brokers.values()]
        oldest = (broker.connection.oldest_sent() for broker in self._brokers.values())
        times += [sent + self._config.request_timeout_ms / 1000 for sent in oldest if sent]
        return min((time - now for time in times if time > now), default=1.0)

    def wakeup(self) -> None:
        """End the current or the next `poll` at once."""
        try:
            self._wake_write.send(b"\0")
        except (BlockingIOError, OSError):
            return  # full: it is awake, closed: nobody waits

    def brokers(self) -> list[BrokerConnection]:
        """Every broker that was ever asked for, connected or not."""
        return list(self._brokers.values())

    def connected(self) -> Iterable[Node]:
        """Brokers with a connection that is ready."""
        return [broker.node for broker in self.brokers() if broker.is_ready]

    def forget_all(self, reason: str, now: float) -> None:
        """Close every connection; what was in flight completes without a response."""
        for node_id in list(self._brokers):
            self._forget(node_id, reason, now)

    def close(self, now: float) -> None:
        """Close every connection, for good."""
        self.forget_all("the client was closed", now)
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()

    def _drain_wakeups(self) -> None:
        try:
            self._wake_read.recv(4096)
        except BlockingIOError:
            return

    def _open(self, broker: BrokerConnection, now: float) -> None:
        """Begin to connect, to the next address of the name; a name is looked up first."""
        broker.last_used, broker.connect_by = now, self._patience(now)
        host, port = broker.node.host, broker.node.port
        try:
            addresses = broker.addresses or literal(host, port)
        except OSError as error:
            self._fail(broker, error, now)
            return
        if addresses is None:
            broker.connection.move(State.RESOLVING)
            self._resolver.ask(host, port, self.wakeup)
            return
        broker.addresses = addresses
        self._dial(broker, now)

    def _take_addresses(self, now: float) -> None:
        """Go on with the brokers whose names have been looked up."""
        for found in self._resolver.resolutions():
            for broker in list(self._brokers.values()):
                if broker.connection.state is not State.RESOLVING:
                    continue
                if (broker.node.host, broker.node.port) != (found.host, found.port):
                    continue
                if found.error is not None:
                    self._fail(broker, found.error, now)
                else:
                    broker.resolved(found.addresses)
                    self._dial(broker, now)

    def _dial(self, broker: BrokerConnection, now: float) -> None:
        address = broker.next_address()
        broker.connection.move(State.CONNECTING)
        self.metrics.opening(broker, address[1])
        try:
            broker.transport = self._connect(
                address, self._config.send_buffer_bytes, self._config.receive_buffer_bytes
            )
        except OSError as error:
            self._fail(broker, error, now)
            return
        broker.last_used, broker.connect_by = now, self._patience(now)
        self._selector.register(broker.transport, selectors.EVENT_WRITE, broker)

    def _patience(self, now: float) -> float:
        """Until when a name must have been looked up, or a connection be ready."""
        return now + self._config.socket_connection_setup_timeout_ms / 1000

    def _serve(self, broker: BrokerConnection, events: int, now: float) -> None:
        if broker.transport is None:
            return
        try:
            if broker.connection.state is State.CONNECTING:
                if broker.transport.finish_connect():
                    broker.connection.connected(now)
                    broker.flush()
            else:
                if events & selectors.EVENT_WRITE:
                    broker.flush()
                if events & selectors.EVENT_READ:
                    self._receive(broker, now)
        except (OSError, ProtocolError) as error:
            self._fail(broker, error, now)
        else:
            self._watch(broker, now)

    def _receive(self, broker: BrokerConnection, now: float) -> None:
        for asked, response in broker.receive(now):
            self.metrics.answered(broker, asked, now)
            self._done.append(_completion(broker, asked, now, response=response))
            self.outages.answered(broker, now)
        if broker.is_ready and broker.connect_by:
            broker.connect_by, broker.failures = 0.0, 0
            self.metrics.ready(broker)
            self.outages.answered(broker, now)
            self.failures.pop(str(broker.node), None)

    def _watch(self, broker: BrokerConnection, now: float) -> None:
        self.metrics.moved(broker, now)
        self._complete_silent(broker)
        if broker.transport is not None:
            writing = selectors.EVENT_WRITE if broker.connection.out else 0
            wanted = selectors.EVENT_READ | writing
            if self._selector.get_key(broker.transport).events != wanted:
                self._selector.modify(broker.transport, wanted, broker)

    def _expire(self, now: float) -> None:
        patience = self._config.request_timeout_ms / 1000
        idle = self._config.connections_max_idle_ms / 1000
        for broker in list(self._brokers.values()):
            oldest = broker.connection.oldest_sent()
            if broker.connect_by and now >= broker.connect_by:
                self._fail(broker, TimeoutError(_TOO_LATE[broker.connection.state]), now)
            elif oldest is not None and now >= oldest + patience:
                self.metrics.timed_out(broker)
                self._fail(broker, TimeoutError("no response within request.timeout.ms"), now)
            elif broker.is_ready and oldest is None and 0 <= idle < now - broker.last_used:
                self._forget(broker.node.node_id, "idle", now)
            elif oldest is not None:
                self.outages.silent(broker, oldest, patience, now)

    def _fail(self, broker: BrokerConnection, error: Exception, now: float) -> None:
        """Give the connection up: back off, or go on with the name's next address."""
        reason, was_ready, was_idle = reason_of(error), broker.is_ready, broker.is_idle
        if was_idle:
            reason = f"closed while idle ({reason})"  # the broker's right, and no failure
        else:
            self.failures[str(broker.node)] = reason
        lost = self._drop(broker, reason, now)
        if broker.addresses and not was_ready:
            return
        broker.addresses = []
        delay = full_jitter(
            broker.failures,
            self._config.reconnect_backoff_ms,
            self._config.reconnect_backoff_max_ms,
            self._random,
        )
        broker.failures += 1
        broker.retry_at = now + delay
        if not was_idle:
            self.outages.failed(broker, reason, lost, delay, now)

    def _drop(self, broker: BrokerConnection, reason: str, now: float) -> list[InFlightRequest]:
        if broker.transport is not None:
            self._selector.unregister(broker.transport)
        broker.connect_by = 0.0
        self.metrics.moved(broker, now)
        self._complete_silent(broker)
        connection, lost = broker.connection, broker.take_over()
        self.metrics.closed(broker, reason, lost)
        for asked in lost:
            completion = _completion(broker, asked, now, failure=reason)
            self._done.append(replace(completion, written=connection.has_written(asked)))
        return lost

    def _complete_silent(self, broker: BrokerConnection) -> None:
        for written in broker.connection.written_silently():
            self._done.append(_completion(broker, written, written.sent_at))

    def _forget(self, node_id: int, reason: str, now: float) -> None:
        broker = self._brokers.pop(node_id, None)
        if broker is not None:
            self._drop(broker, reason, now)


def _completion(
    broker: BrokerConnection,
    asked: InFlightRequest,
    now: float,
    *,
    response: Any | None = None,
    failure: str | None = None,
) -> Completion:
    return Completion(
        node=broker.node,
        request=asked.request,
        response=response,
        failure=failure,
        latency=now - asked.sent_at,
        correlation_id=asked.correlation_id,
    )
