"""All connections of a client behind one selector: the only place that waits for the network.

Used by the sender thread alone; `wakeup` may be called from any thread.
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
    from spark_kafka_sink.client.connection import InFlight, Request
    from spark_kafka_sink.client.resolver import Address, Resolver
    from spark_kafka_sink.client.transport import Transport
    from spark_kafka_sink.config.model import ProducerConfig

    Connect = Callable[[Address, tuple[int, int]], Transport]

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
    ) -> None:
        self.observer = ConnectionMetrics()
        self.outages = OutageLog()
        self.failures: dict[str, str] = {}
        """Why the latest attempt failed, by address, until one works there."""
        self._config = config
        self._random = random
        self._connect = connect
        self._resolver = resolver or ThreadResolver()
        self._links: dict[int, BrokerConnection] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._done: list[Completion] = []

    def ready(self, node: Node, now: float) -> bool:
        """Whether requests can go to this broker now; begins to connect if need be."""
        link = self._links.get(node.node_id)
        if link is None or link.node != node:
            self._forget(node.node_id, "the broker has a new address", now)
            link = self._links[node.node_id] = BrokerConnection(node, self._config.client_id)
        if link.connection.state is State.DISCONNECTED and now >= link.retry_at:
            self._open(link, now)
        return link.is_ready and now >= link.throttled_until

    def connecting(self, since: float) -> bool:
        """Whether some connection is being opened that was begun after `since`."""
        opening = (State.RESOLVING, State.CONNECTING, State.NEGOTIATING)
        return any(
            link.connection.state in opening and link.last_used > since
            for link in self._links.values()
        )

    def can_connect(self, node: Node, now: float) -> bool:
        """Whether a connection to this broker may be begun: there is none, and no back-off."""
        link = self._links.get(node.node_id)
        if link is None:
            return True
        return link.connection.state is State.DISCONNECTED and now >= link.retry_at

    def attempts(self, node: Node) -> int:
        """How often connecting to this broker has failed since it last worked."""
        link = self._links.get(node.node_id)
        return 0 if link is None else link.failures

    def in_flight(self, node_id: int) -> int:
        """Requests under way to a broker."""
        link = self._links.get(node_id)
        if link is None:
            return 0
        return len(link.connection.in_flight) + len(link.connection.silent)

    def waits_since(self, node_id: int) -> float | None:
        """When the request was sent that has waited longest for this broker."""
        link = self._links.get(node_id)
        if link is None:
            return None
        waiting = (link.connection.in_flight, link.connection.silent)
        return min((flights[0].sent_at for flights in waiting if flights), default=None)

    def link(self, node_id: int) -> BrokerConnection:
        """The link to a broker that `ready` was asked about."""
        return self._links[node_id]

    def send(self, node_id: int, request: Request, now: float) -> int:
        """Send to a ready broker; a failure shows up as a completion.

        Returns the request's correlation id, 0 where the connection was gone.
        """
        link = self._links[node_id]
        try:
            flight = link.send(request, now)
        except OSError as error:
            self._fail(link, error, now)
            return 0
        self.observer.sent(link, flight)
        self._watch(link, now)
        return flight.correlation_id

    def throttle(self, node_id: int, seconds: float, now: float) -> None:
        """Leave a broker alone for so long, as it asked (KIP-219)."""
        if link := self._links.get(node_id):
            link.throttled_until = max(link.throttled_until, now + seconds)
            self.observer.throttled(link, seconds)

    def disconnect(self, node_id: int, why: str, now: float) -> None:
        """Close a connection; what was under way there completes without a response."""
        if link := self._links.get(node_id):
            self._fail(link, ConnectionAbortedError(why), now)

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
        times = [link.connect_by for link in self._links.values() if link.connect_by]
        times += [link.retry_at for link in self._links.values() if link.retry_at > now]
        times += [link.throttled_until for link in self._links.values()]
        oldest = (link.connection.oldest_sent() for link in self._links.values())
        times += [sent + self._config.request_timeout_ms / 1000 for sent in oldest if sent]
        return min((time - now for time in times if time > now), default=1.0)

    def wakeup(self) -> None:
        """End the current or the next `poll` at once."""
        try:
            self._wake_write.send(b"\0")
        except (BlockingIOError, OSError):
            return  # full: it is awake, closed: nobody waits

    def links(self) -> list[BrokerConnection]:
        """Every broker that was ever asked for, connected or not."""
        return list(self._links.values())

    def connected(self) -> Iterable[Node]:
        """Brokers with a connection that is ready."""
        return [link.node for link in self._links.values() if link.is_ready]

    def forget_all(self, reason: str, now: float) -> None:
        """Close every connection; what was under way completes without a response."""
        for node_id in list(self._links):
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

    def _open(self, link: BrokerConnection, now: float) -> None:
        """Begin to connect, to the next address of the name; a name is looked up first."""
        link.last_used, link.connect_by = now, self._patience(now)
        host, port = link.node.host, link.node.port
        try:
            addresses = link.addresses or literal(host, port)
        except OSError as error:
            self._fail(link, error, now)
            return
        if addresses is None:
            link.connection.move(State.RESOLVING)
            self._resolver.ask(host, port, self.wakeup)
            return
        link.addresses = addresses
        self._dial(link, now)

    def _take_addresses(self, now: float) -> None:
        """Go on with the brokers whose names have been looked up."""
        for found in self._resolver.resolutions():
            for link in list(self._links.values()):
                if link.connection.state is not State.RESOLVING:
                    continue
                if (link.node.host, link.node.port) != (found.host, found.port):
                    continue
                if found.error is not None:
                    self._fail(link, found.error, now)
                else:
                    link.resolved(found.addresses)
                    self._dial(link, now)

    def _dial(self, link: BrokerConnection, now: float) -> None:
        buffers = (self._config.send_buffer_bytes, self._config.receive_buffer_bytes)
        address = link.next_address()
        link.connection.move(State.CONNECTING)
        self.observer.opening(link, address[1])
        try:
            link.transport = self._connect(address, buffers)
        except OSError as error:
            self._fail(link, error, now)
            return
        link.last_used, link.connect_by = now, self._patience(now)
        self._selector.register(link.transport, selectors.EVENT_WRITE, link)

    def _patience(self, now: float) -> float:
        """Until when a name must have been looked up, or a connection be ready."""
        return now + self._config.socket_connection_setup_timeout_ms / 1000

    def _serve(self, link: BrokerConnection, events: int, now: float) -> None:
        if link.transport is None:
            return
        try:
            if link.connection.state is State.CONNECTING:
                if link.transport.finish_connect():
                    link.connection.connected(now)
                    link.flush()
            else:
                if events & selectors.EVENT_WRITE:
                    link.flush()
                if events & selectors.EVENT_READ:
                    self._receive(link, now)
        except (OSError, ProtocolError) as error:
            self._fail(link, error, now)
        else:
            self._watch(link, now)

    def _receive(self, link: BrokerConnection, now: float) -> None:
        for asked, response in link.receive(now):
            self.observer.answered(link, asked, now)
            self._done.append(_completion(link, asked, (response, None), now))
            self.outages.answered(link, now)
        if link.is_ready and link.connect_by:
            link.connect_by, link.failures = 0.0, 0
            self.observer.ready(link)
            self.outages.answered(link, now)
            self.failures.pop(str(link.node), None)

    def _watch(self, link: BrokerConnection, now: float) -> None:
        self.observer.moved(link, now)
        self._complete_silent(link)
        if link.transport is not None:
            writing = selectors.EVENT_WRITE if link.connection.out else 0
            wanted = selectors.EVENT_READ | writing
            if self._selector.get_key(link.transport).events != wanted:
                self._selector.modify(link.transport, wanted, link)

    def _expire(self, now: float) -> None:
        patience = self._config.request_timeout_ms / 1000
        idle = self._config.connections_max_idle_ms / 1000
        for link in list(self._links.values()):
            oldest = link.connection.oldest_sent()
            if link.connect_by and now >= link.connect_by:
                self._fail(link, TimeoutError(_TOO_LATE[link.connection.state]), now)
            elif oldest is not None and now >= oldest + patience:
                self.observer.timed_out(link)
                self._fail(link, TimeoutError("no response within request.timeout.ms"), now)
            elif link.is_ready and oldest is None and 0 <= idle < now - link.last_used:
                self._forget(link.node.node_id, "idle", now)
            elif oldest is not None:
                self.outages.silent(link, oldest, patience, now)

    def _fail(self, link: BrokerConnection, error: Exception, now: float) -> None:
        """Give the connection up: back off, or go on with the name's next address."""
        reason, was_ready, was_idle = reason_of(error), link.is_ready, link.is_idle
        if was_idle:
            reason = f"closed while idle ({reason})"  # the broker's right, and no failure
        else:
            self.failures[str(link.node)] = reason
        lost = self._drop(link, reason, now)
        if link.addresses and not was_ready:
            return
        link.addresses = []
        delay = full_jitter(
            link.failures,
            self._config.reconnect_backoff_ms,
            self._config.reconnect_backoff_max_ms,
            self._random,
        )
        link.failures += 1
        link.retry_at = now + delay
        if not was_idle:
            self.outages.failed(link, reason, lost, delay, now)

    def _drop(self, link: BrokerConnection, reason: str, now: float) -> list[InFlight]:
        if link.transport is not None:
            self._selector.unregister(link.transport)
        link.connect_by = 0.0
        self.observer.moved(link, now)
        self._complete_silent(link)
        connection, lost = link.connection, link.take_over()
        self.observer.closed(link, reason, lost)
        for asked in lost:
            completion = _completion(link, asked, (None, reason), now)
            self._done.append(replace(completion, written=connection.has_written(asked)))
        return lost

    def _complete_silent(self, link: BrokerConnection) -> None:
        for written in link.connection.written_silently():
            self._done.append(_completion(link, written, (None, None), written.sent_at))

    def _forget(self, node_id: int, reason: str, now: float) -> None:
        link = self._links.pop(node_id, None)
        if link is not None:
            self._drop(link, reason, now)


def _completion(
    link: BrokerConnection, asked: InFlight, outcome: tuple[Any | None, str | None], now: float
) -> Completion:
    response, failure = outcome
    return Completion(
        node=link.node,
        request=asked.request,
        response=response,
        failure=failure,
        latency=now - asked.sent_at,
        correlation_id=asked.correlation_id,
    )
