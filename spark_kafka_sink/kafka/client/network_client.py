"""All connections of a client. They share one selector, and only this module waits for the network.

Used only by the thread that drives the client: the sender thread, or the caller of a
`BlockingClient`. Any thread can call `wakeup` and `connected`, copy the reasons in `failures`, and,
while no session is sending, call `set_client_id`.

Source: ``NetworkClient``, ``ClusterConnectionStates``.
"""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError, ProtocolError
from spark_kafka_sink.common.wakeup import Wakeup
from spark_kafka_sink.config.client_config import DEFAULT_CLIENT_ID, ClientConfig
from spark_kafka_sink.kafka.client.backoff import full_jitter
from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
from spark_kafka_sink.kafka.client.channel.background import BackgroundCalls, Calls
from spark_kafka_sink.kafka.client.channel.channel_builder import ChannelBuilder
from spark_kafka_sink.kafka.client.channel.channel_state import OPENING, ChannelState
from spark_kafka_sink.kafka.client.channel.connection_failures import ConnectionFailures
from spark_kafka_sink.kafka.client.channel.diagnosis import (
    Diagnosis,
    FailureKind,
    connect_timeout,
    diagnose,
)
from spark_kafka_sink.kafka.client.channel.transport import TcpTransport
from spark_kafka_sink.kafka.client.connection_metrics import ConnectionMetrics
from spark_kafka_sink.kafka.client.connection_opener import ConnectionOpener
from spark_kafka_sink.kafka.client.connection_protocol import UnreadableError
from spark_kafka_sink.kafka.client.outages import OutageLog
from spark_kafka_sink.kafka.client.request import Completion, Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
    from spark_kafka_sink.kafka.client.channel.transport import Connect
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.client.connection_opener import OpeningStep
    from spark_kafka_sink.kafka.client.request import Request

MAX_LOGIN_THREADS = 64
"""Maximum number of threads that run login steps and read TLS stores."""


class NetworkClient:
    """Opens, polls and closes connections, without interpreting requests.

    Args:
        config: timeouts, buffer sizes and security settings.
        random: source of jitter.
        connect: function that opens a socket; None for TCP.
        lookups: resolves host names; None for separate threads.
        metrics: counts and logs the events of connections.
        logins: runs login steps, and reads TLS stores; None for separate threads.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        random: Random,
        connect: Connect | None = None,
        lookups: Calls | None = None,
        metrics: ConnectionMetrics | None = None,
        logins: Calls | None = None,
    ) -> None:
        self.metrics = metrics or ConnectionMetrics()
        self.outages = OutageLog()
        self.failures = ConnectionFailures(config.bootstrap_servers)
        """The failures of all brokers; any thread can copy `reasons`."""
        self.client_id = config.client_id or DEFAULT_CLIENT_ID
        """The client id in request headers."""
        self._config = config
        self._random = random
        self._channels = ChannelBuilder(config.security)
        self._brokers: dict[int, BrokerConnection] = {}
        self._selector = selectors.DefaultSelector()
        self._wakeup = Wakeup(self._selector)
        self._opener = ConnectionOpener(
            config=config,
            channels=self._channels,
            metrics=self.metrics,
            wakeup=self.wakeup,
            connect=connect or TcpTransport,
            lookups=lookups or BackgroundCalls("kafkaprod-dns"),
            logins=logins or BackgroundCalls("kafkaprod-login", MAX_LOGIN_THREADS),
        )
        self._done: list[Completion] = []

    def set_client_id(self, client_id: str) -> None:
        """Set the client id for later requests, unless the user has configured a client id.

        Brokers read it from each request, so open connections can be reused. Any thread can call
        this while no session is sending.
        """
        self.client_id = self._config.client_id or client_id or DEFAULT_CLIENT_ID
        for broker in self.brokers():
            broker.set_client_id(self.client_id)

    def is_ready(self, node: Node, now: float) -> bool:
        """Return True if requests can now be sent to a broker at the address in `node`."""
        broker = self._brokers.get(node.node_id)
        if broker is None or broker.node != node:
            return False
        if not broker.is_ready or now >= broker.login_due:
            return False
        return now >= broker.throttled_until

    def connect(self, node: Node, now: float) -> None:
        """Start to connect to a broker unless it is connected, connecting, or backing off.

        If the connection's login must be renewed, start the renewal instead (KIP-368).
        """
        broker = self._brokers.get(node.node_id)
        if broker is None or broker.node != node:
            self._forget(node.node_id, "the broker has a new address", now)
            login = self._channels.login(node.host)
            clock = self.metrics.clock
            broker = BrokerConnection(node, self.client_id, login, self._random, clock)
            self._brokers[node.node_id] = broker
        if step := self._opener.first_step(broker, now):
            self._run_step(broker, step, now)

    def is_connecting(self, since: float) -> bool:
        """Return True if a connection attempt that started after `since` is in progress."""
        return any(
            broker.state in OPENING and broker.last_used > since
            for broker in self._brokers.values()
        )

    def can_connect(self, node: Node, now: float) -> bool:
        """Return True if `connect` would now start to connect or to renew a login."""
        broker = self._brokers.get(node.node_id)
        return broker is None or self._opener.first_step(broker, now) is not None

    def failed_attempts(self, node: Node) -> int:
        """Return the number of failed connection attempts since the last success."""
        broker = self._brokers.get(node.node_id)
        return 0 if broker is None else broker.attempts.failures

    def in_flight(self, node_id: int) -> int:
        """Return the number of requests in flight to a broker."""
        broker = self._brokers.get(node_id)
        return 0 if broker is None else broker.incomplete_requests

    def oldest_request_sent_at(self, node_id: int) -> float | None:
        """Return when the oldest request in flight was sent, or None if no request is in flight."""
        broker = self._brokers.get(node_id)
        return None if broker is None else broker.oldest_request_sent_at()

    def broker(self, node_id: int) -> BrokerConnection:
        """Return the state of a broker for which `connect` was called."""
        return self._brokers[node_id]

    def send(self, node_id: int, request: Request, now: float) -> int:
        """Send a request to a ready broker; failures are returned as completions by `poll`.

        Returns:
            The request's correlation id, or 0 if the connection was lost.
        """
        broker = self._brokers[node_id]
        try:
            sent_request = broker.send(request, now)
        except OSError as error:
            self._fail(broker, error, now)
            return 0
        self.metrics.on_sent(broker, sent_request)
        self._watch(broker)
        return sent_request.correlation_id

    def throttle(self, node_id: int, seconds: float, now: float) -> None:
        """Send no requests to a broker for `seconds`, as its response has requested (KIP-219)."""
        if broker := self._brokers.get(node_id):
            self.outages.on_throttled(broker, seconds, now)
            broker.throttle(now + seconds)
            self.metrics.on_throttled(broker, seconds)

    def throttled_until(self, node_id: int) -> float:
        """Return the time until which a broker throttles this client, or 0 if it never has."""
        broker = self._brokers.get(node_id)
        return 0.0 if broker is None else broker.throttled_until

    def poll(self, timeout: float, clock: Callable[[], float]) -> list[Completion]:
        """Wait at most `timeout` seconds for the network; return the new completions."""
        now = clock()  # Process results of other threads first; this does not delay responses.
        for broker, step in self._opener.due_steps(self._brokers.values()):
            self._run_step(broker, step, now)
        wait = 0.0 if self._done else max(0.0, timeout)
        for key, events in self._selector.select(wait):
            if key.data is None:
                self._wakeup.drain()
            else:
                self._serve(key.data, events, clock())
        # Expire requests last: after a pause of the process, the sockets might contain unread
        # responses.
        self._expire(clock())
        done, self._done = self._done, []
        return done

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until the next timeout or retry, or 1.0 if nothing is scheduled."""
        timeout = self._config.request_timeout_ms / 1000
        times = (due for broker in self._brokers.values() for due in broker.deadlines(timeout))
        return min((due - now for due in times if due > now), default=1.0)

    def use_session_meters(
        self, meters: BrokerMeters, backlog: Callable[[int, float], str]
    ) -> None:
        """Count in the meters of a session, and name its waiting batches in logs of outages."""
        self.metrics.meters = meters
        self.outages.backlog = backlog

    def wakeup(self) -> None:
        """Make the current or the next `poll` return immediately."""
        self._wakeup.wake()

    def brokers(self) -> list[BrokerConnection]:
        """Return a new list of all known brokers, including disconnected brokers."""
        return list(self._brokers.values())

    def connected(self) -> Iterable[Node]:
        """Return the brokers whose connections are ready."""
        return [broker.node for broker in self.brokers() if broker.is_ready]

    def forget_all(self, reason: str, now: float) -> None:
        """Close every connection; requests in flight complete without a response."""
        for node_id in list(self._brokers):
            self._forget(node_id, reason, now)

    def close(self, now: float) -> None:
        """Close every connection and the selector."""
        self.forget_all("the client was closed", now)
        self._selector.close()
        self._wakeup.close()

    def _run_step(self, broker: BrokerConnection, step: OpeningStep, now: float) -> None:
        """Run a step that opens a connection or logs in."""
        try:
            step(broker, now)
        except (OSError, KafkaProdError) as error:
            self._fail(broker, error, now)
        else:
            self._note_ready(broker, now)
            self._watch(broker)

    def _serve(self, broker: BrokerConnection, events: int, now: float) -> None:
        if broker.transport is None:
            return
        try:
            if broker.state in {ChannelState.CONNECTING, ChannelState.TLS_HANDSHAKE}:
                broker.continue_connecting(self._channels, now)
            elif events & selectors.EVENT_READ:
                # Read before writing, because a TLS alert is more useful than EPIPE.
                self._receive(broker, now)
            else:
                broker.flush()
            if not broker.is_ready:
                self._opener.continue_login(broker, now)
        except (OSError, KafkaProdError) as error:
            self._fail(broker, error, now)
        else:
            self._watch(broker)

    def _receive(self, broker: BrokerConnection, now: float) -> None:
        try:
            for sent_request, response in broker.receive(now):
                self.metrics.on_response(broker, sent_request, now)
                latency = now - sent_request.sent_at
                self._done.append(Completion(broker.node, sent_request, latency, response))
                self.outages.on_response(broker, now)
                self.failures.record_success(str(broker.node))
        except ProtocolError as error:
            self.metrics.on_unreadable(broker, error)
            raise
        self._note_ready(broker, now)

    def _note_ready(self, broker: BrokerConnection, now: float) -> None:
        if broker.is_ready and broker.attempts.deadline:
            broker.attempts.succeed()
            self.metrics.on_ready(broker)
            if broker.login is not None:
                self.failures.record_success(str(broker.node))
            if self.failures.is_accepted:
                self.outages.on_response(broker, now)

    def _watch(self, broker: BrokerConnection) -> None:
        self.metrics.update(broker)
        self._done += broker.take_fire_and_forget()
        if broker.transport is not None:
            events = selectors.EVENT_READ
            if broker.wants_write:
                events |= selectors.EVENT_WRITE
            if broker.registered_events != events:
                selector, is_registered = self._selector, broker.registered_events
                register = selector.modify if is_registered else selector.register
                register(broker.transport, events, broker)
                broker.registered_events = events

    def _expire(self, now: float) -> None:
        timeout = self._config.request_timeout_ms / 1000
        idle = self._config.connections_max_idle_ms / 1000
        for broker in list(self._brokers.values()):
            oldest = broker.response_awaited_since()
            if 0 < broker.attempts.deadline <= now:
                self._fail(broker, connect_timeout(broker.state), now)
            elif oldest is not None and now >= oldest + timeout:
                self.metrics.on_timed_out(broker)
                self._fail(broker, TimeoutError("no response within request.timeout.ms"), now)
            elif broker.is_ready and oldest is None and 0 <= idle < now - broker.last_used:
                self._forget(broker.node.node_id, "idle", now)
            elif oldest is not None:
                self.outages.on_unresponsive(broker, oldest, timeout, now)

    def _fail(self, broker: BrokerConnection, error: Exception, now: float) -> None:
        """Close a failed connection. Then back off, or continue with the next address."""
        security, is_accepted = self._config.security, self.failures.is_accepted
        diagnosis = diagnose(error, broker.circumstances(security, is_accepted=is_accepted))
        reason, was_ready, was_idle = diagnosis.reason, broker.is_ready, broker.is_idle
        if was_idle:
            # Brokers can close idle connections; this is not a failure.
            reason = f"closed while idle ({reason})"
        else:
            self.failures.record_failure(str(broker.node), diagnosis, now)
        lost = self._drop(broker, reason, now, _loss_of(error, diagnosis))
        if broker.attempts.addresses and not was_ready:
            return
        delay = full_jitter(
            broker.attempts.failures,
            self._config.reconnect_backoff_ms,
            self._config.reconnect_backoff_max_ms,
            self._random,
        )
        broker.attempts.back_off(now + delay)
        if not was_idle and self.failures.fatal is None:
            self.outages.on_failed(broker, reason, lost, delay, now)

    def _drop(
        self, broker: BrokerConnection, reason: str, now: float, loss: Loss = Loss.OTHER
    ) -> list[Completion]:
        """Close a connection, and complete and return its unanswered requests."""
        if broker.transport is not None and broker.registered_events:
            self._selector.unregister(broker.transport)
        self.metrics.update(broker)
        self._done += broker.take_fire_and_forget()
        lost = broker.lost_requests(reason, loss, now)
        self._opener.cancel(broker)
        broker.reset()
        self.metrics.on_closed(broker, reason, lost)
        self._done += lost
        return lost

    def _forget(self, node_id: int, reason: str, now: float) -> None:
        broker = self._brokers.pop(node_id, None)
        if broker is not None:
            self._drop(broker, reason, now)


def _loss_of(error: Exception, diagnosis: Diagnosis) -> Loss:
    """Return the kind of loss of requests in flight; a port of another protocol is OTHER."""
    if isinstance(error, UnreadableError):
        return Loss.UNREADABLE
    is_closed = isinstance(error, ConnectionResetError | BrokenPipeError)
    return Loss.CLOSED if is_closed and diagnosis.kind is FailureKind.TEMPORARY else Loss.OTHER
