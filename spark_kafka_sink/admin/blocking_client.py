"""A Kafka client that runs on the caller's thread, and the idle clients of this process.

A client without a thread of its own: the caller's sends, waits and takes the answers.

Many requests to many brokers are in flight at once. Connections, TLS, SASL and metadata are those
of `client`. Source: ``NetworkClient`` under ``KafkaAdminClient``.

Clients across calls: a process keeps those that are healthy, one for each configuration.

Spark's planning and commit processes live as long as a query, and run once in every micro-batch.
Only connections and what was learned of the cluster are kept. A connection belongs to who has
logged in, as in `producer.session`.

What brokers deny to whoever administers transactions and topics: which ACL is missing.

Source: ``KafkaApis``.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.admin.call import Answer, Call
from spark_kafka_sink.client.client import Client
from spark_kafka_sink.client.metadata import Metadata
from spark_kafka_sink.client.request import Request
from spark_kafka_sink.common.errors import AuthorizationError, BrokerUnavailableError, ProtocolError
from spark_kafka_sink.protocol.error_codes import error_name
from spark_kafka_sink.protocol.transactions import TransactionVersion
from spark_kafka_sink.security.acl import Acl, AclGuide, Operation, ResourceType
from spark_kafka_sink.security.credentials import credentials_stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random
    from types import TracebackType
    from typing import Self

    from spark_kafka_sink.client.broker_connection import BrokerConnection, Connect
    from spark_kafka_sink.client.channel.authenticator import LoginSteps
    from spark_kafka_sink.client.channel.connection_failures import ConnectionFailures
    from spark_kafka_sink.client.channel.resolver import Resolver
    from spark_kafka_sink.client.cluster import Cluster, Node
    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.protocol.versions import ApiKey
    from spark_kafka_sink.security.credentials import Stamp


MAX_CACHED_COORDINATORS = 10_000
"""Ids: most are used once, and then never again."""


class Coordinators:
    """The answers to FindCoordinator, those asked for longest ago dropped first."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def get(self, transactional_id: str) -> Node | None:
        """The coordinator, None where nobody has asked yet or it has moved."""
        return self._nodes.get(transactional_id)

    def found(self, transactional_id: str, node: Node) -> None:
        """A broker has named it."""
        self._nodes.pop(transactional_id, None)
        self._nodes[transactional_id] = node
        if len(self._nodes) > MAX_CACHED_COORDINATORS:
            del self._nodes[next(iter(self._nodes))]

    def forget(self, transactional_id: str) -> None:
        """The broker is no longer the coordinator, or does not answer."""
        self._nodes.pop(transactional_id, None)


MAX_IN_FLIGHT = 100
"""Requests in flight to one broker, which serves those of a connection one after the other."""
_LONG_THROTTLE_S = 1.0
_QUOTA_HINT = (
    "the brokers enforce a quota (producer_byte_rate, request_percentage) on this user or "
    "client.id: raise it, write less at a time, or raise kafka.max.block.ms"
)
_CONNECTING_WAIT = 0.02
"""Seconds between two looks for any broker that can be asked."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A call that is in flight: the version it was written in, and what its broker speaks."""

    call: Call
    version: int
    transaction_version: TransactionVersion


@dataclass(frozen=True, slots=True)
class _Queue:
    """Calls that wait for a connection, or for room on it.

    `failures`: how often connecting to the broker had failed when the first of them came.
    """

    failures: int
    calls: deque[Call]


ADMIN_CLIENT_ID = "kafkaprod-admin"


class BlockingClient:
    """Used by one thread at a time; a context manager.

    Args:
        config: whom to connect to, and how; topics are never created by asking about them.
        clock: the machine's where None.
        random: draws the back-offs.
        connect: opens sockets; TCP where None.
        resolver: looks names up; the system's where None.
        logins: makes the steps of logins; threads where None.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock | None = None,
        random: Random | None = None,
        connect: Connect | None = None,
        resolver: Resolver | None = None,
        logins: LoginSteps | None = None,
    ) -> None:
        self.config = config
        quiet = replace(config, allow_auto_create_topics=False)
        self._client = Client(quiet, clock, random, connect, resolver, logins)
        self._network = self._client.network
        self._network.name_client(ADMIN_CLIENT_ID)
        self.metadata = self._client.metadata
        self.random = self._client.random
        self.coordinators = Coordinators()
        self._queues: dict[Node, _Queue] = {}
        self._in_flight: set[_Sent] = set()
        self._throttled_s: dict[str, float] = {}
        """Seconds for which brokers have throttled the present user of the client, by address."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.abandon()
        self._client.close()

    @property
    def cluster(self) -> Cluster:
        """What the brokers have said of the cluster so far."""
        return self.metadata.cluster

    @property
    def credentials(self) -> Stamp:
        """What the references among the security settings led to when the client was made."""
        return self._client.credentials

    @property
    def failures(self) -> ConnectionFailures:
        """Why brokers could not be reached, by address."""
        return self._network.failures

    def brokers(self) -> list[BrokerConnection]:
        """Every broker that was ever asked for, connected or not."""
        return self._network.brokers()

    def now(self) -> float:
        """Seconds of the clock that deadlines are given in."""
        return self._client.clock.monotonic()

    def deadline(self, seconds: float) -> float:
        """The deadline for what may take so long from now on."""
        return self.now() + seconds

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._client.clock.wall_ms()

    def submit(self, call: Call) -> None:
        """Send a request as soon as its broker can be reached; nothing is sent by this alone."""
        queue = self._queues.get(call.node)
        if queue is None:
            queue = self._queues[call.node] = _Queue(self._network.attempts(call.node), deque())
        queue.calls.append(call)

    def turn(self, wait: float) -> None:
        """Send what can be sent, wait at most `wait` seconds, and take what has been answered.

        Raises:
            AuthenticationError: the brokers do not accept this client.
            ProtocolError: a broker does not serve what it is to be asked.
        """
        now = self.now()
        for node in list(self._queues):
            self._send_queued(node, now)
        self.metadata.maybe_send(self._network, now)
        waits = (wait, self._network.next_deadline(now), self.metadata.wait(now))
        for completion in self._network.poll(min(waits), self._client.clock.monotonic):
            self._complete(completion)
        self._fail_unreachable()
        if self.metadata.failure is not None:
            raise copy(self.metadata.failure)
        if (fatal := self._network.failures.fatal) is not None:
            raise copy(fatal)

    def any_node(self) -> Node | None:
        """A broker that can be asked at once; if there is none, one is connected to."""
        now = self.now()
        node = self.metadata.least_loaded_node(self._network, now)
        if node is None:
            self.metadata.connect_any(self._network, now)
        return node

    def version(self, node: Node, api: ApiKey, cap: int | None = None) -> int | None:
        """The version that a broker would be asked in; None while it is not connected."""
        if not self._network.is_ready(node, self.now()):
            return None
        return self._network.broker(node.node_id).connection.version(api, cap)

    def want(self, topics: Iterable[str]) -> None:
        """From now on the metadata covers these topics."""
        self.metadata.want(topics)

    def await_metadata(self, deadline: float | None) -> None:
        """Wait until a broker has told of the cluster since the client was made.

        Raises:
            AuthenticationError: the brokers do not accept this client.
            BrokerUnavailableError: the deadline has passed.
        """
        while not self.metadata.answered:
            self.pause(1.0, deadline, until_answered=True)

    def refresh_metadata(self, deadline: float | None) -> None:
        """Wait until a broker has told what has become of the topics by now; raises alike."""
        earlier = self.metadata.requests
        self.metadata.refresh()
        while self.metadata.answered <= earlier:
            self.pause(1.0, deadline, until_answered=True)

    def pause(
        self, seconds: float, deadline: float | None, *, until_answered: bool = False
    ) -> None:
        """Let so much time pass, or less where `until_answered` and something comes.

        Raises:
            BrokerUnavailableError: the deadline has passed.
        """
        end = self.now() + seconds
        while True:
            now = self.now()
            if deadline is not None and now >= deadline:
                raise self.unavailable("asking the brokers")
            if now >= end:
                return
            self.turn((end if deadline is None else min(end, deadline)) - now)
            if until_answered:
                return

    def forget_topics(self) -> None:
        """Whoever uses the client next begins with what the brokers say then."""
        self._throttled_s.clear()
        self.metadata.end_session(self.now())

    def abandon(self) -> None:
        """Nobody waits for the calls that were submitted any more."""
        self._queues.clear()
        self._in_flight.clear()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in flight or waits to be sent."""
        return not self._queues and not self._in_flight

    def unavailable(self, what: str, code: int | None = None) -> BrokerUnavailableError:
        """The error for what could not be done within its deadline.

        Args:
            what: the task, such as "describing transactions".
            code: the latest answer that did not settle it, None where there was none.
        """
        reasons = sorted(self._network.failures.reasons.items())
        tried = "; ".join(f"{address}: {reason}" for address, reason in reasons)
        throttled = self._throttles()
        hint = "see whether the brokers of kafka.bootstrap.servers run and can be reached"
        return BrokerUnavailableError(
            f"{what} took longer than it may"
            + (f", as a quota throttles this client: {throttled}" if throttled else "")
            + (f". Tried {tried}" if tried else ""),
            error=None if code is None else error_name(code),
            hint=_QUOTA_HINT if throttled else hint,
        )

    def _throttles(self) -> str:
        """The brokers that have throttled this client for long, such as "host:9092 for 12.3 s"."""
        return ", ".join(
            f"{address} for {seconds:.1f} s"
            for address, seconds in sorted(self._throttled_s.items())
            if seconds >= _LONG_THROTTLE_S
        )

    def _send_queued(self, node: Node, now: float) -> None:
        """Send what waits for a broker, or go on connecting to it."""
        if not self._network.is_ready(node, now):
            self._network.connect(node, now)
            return
        calls = self._queues[node].calls
        while calls and self._network.in_flight(node.node_id) < MAX_IN_FLIGHT:
            self._send(calls.popleft(), now)
            if not self._network.is_ready(node, now):
                return
        if not calls:
            del self._queues[node]

    def _send(self, call: Call, now: float) -> None:
        connection = self._network.broker(call.node.node_id).connection
        try:
            version = connection.version(call.api, call.cap)
        except ProtocolError as error:
            error.broker = str(call.node)
            raise
        sent = _Sent(call, version, connection.transaction_version)
        request = Request(api=call.api, version=version, body=call.body(version), context=sent)
        self._in_flight.add(sent)
        self._network.send(call.node.node_id, request, now)

    def _complete(self, completion: Completion) -> None:
        sent: Any = completion.request.context
        if isinstance(sent, Metadata):
            self.metadata.handle_response(completion, self.now())
        elif sent in self._in_flight:
            self._in_flight.discard(sent)
            self._throttle(completion)
            sent.call.done(
                Answer(
                    node=completion.node,
                    version=sent.version,
                    transaction_version=sent.transaction_version,
                    response=completion.response,
                    failure=completion.failure,
                    written=completion.written,
                )
            )

    def _throttle(self, completion: Completion) -> None:
        if pause_ms := completion.throttle_ms:
            seconds, address = pause_ms / 1000, str(completion.node)
            self._throttled_s[address] = self._throttled_s.get(address, 0.0) + seconds
            self._network.throttle(completion.node.node_id, seconds, self.now())

    def _fail_unreachable(self) -> None:
        """Give back the calls to brokers that could not be connected to since they came."""
        for node, queue in list(self._queues.items()):
            if self._network.attempts(node) <= queue.failures:
                continue
            del self._queues[node]
            reason = self._network.failures.reasons.get(str(node), "no connection")
            for call in queue.calls:
                call.done(
                    Answer(
                        node=node,
                        version=-1,
                        transaction_version=TransactionVersion.V1,
                        failure=reason,
                        written=False,
                    )
                )


MAX_IDLE_CLIENTS = 4
"""Clients that a process keeps: the one unused longest goes first."""

_lock = Lock()
"""Guards `_cache`: a process may serve several queries, each in a thread of its own."""
_cache: dict[tuple[int, ProducerConfig], BlockingClient] = {}
"""Clients that nobody uses now, by process and configuration."""


@contextmanager
def borrowed_client(config: ProducerConfig) -> Iterator[BlockingClient]:
    """A client that an earlier call of this process left, or a new one.

    One that an error has passed through is closed.
    """
    client = _take(config) or BlockingClient(config)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    _keep(client)


def close_clients() -> None:
    """Close those that nobody uses now."""
    with _lock:
        unused = list(_cache.values())
        _cache.clear()
    for client in unused:
        client.close()


def _take(config: ProducerConfig) -> BlockingClient | None:
    with _lock:
        client = _cache.pop((os.getpid(), config), None)
    if client is not None and client.credentials != credentials_stamp(config.security):
        client.close()
        return None
    return client


def _keep(client: BlockingClient) -> None:
    if not client.is_quiet or client.failures.fatal is not None:
        client.close()
        return
    client.forget_topics()
    key = (os.getpid(), client.config)
    with _lock:
        unwanted = [_cache.pop(key)] if key in _cache else []
        _cache[key] = client
        unwanted += [_cache.pop(next(iter(_cache))) for _ in range(len(_cache) - MAX_IDLE_CLIENTS)]
    for other in unwanted:
        other.close()


def denied(client: BlockingClient, what: str, code: int, acl: Acl) -> AuthorizationError:
    """The error for what was refused with an authorization error code.

    Args:
        client: who asked.
        what: the request, such as "InitProducerId".
        code: Kafka's error code.
        acl: the right that is missing.
    """
    config = client.config
    guide = AclGuide(config.security, config.bootstrap_servers[0])
    topic = acl.name if acl.resource is ResourceType.TOPIC else None
    return AuthorizationError(
        f"{what} was refused: {acl} is denied to {guide.principal}",
        topic=topic,
        error=error_name(code),
        hint=guide.grant(acl),
    )


def on_topic(operation: Operation, topic: str) -> Acl:
    """A right on one topic."""
    return Acl(operation, ResourceType.TOPIC, topic)


def on_transactional_id(operation: Operation, name: str, prefix: str | None) -> Acl:
    """A right on all transactional ids with a prefix where there is one, else on this id."""
    if prefix is None:
        return Acl(operation, ResourceType.TRANSACTIONAL_ID, name)
    return Acl(operation, ResourceType.TRANSACTIONAL_ID, prefix, prefixed=True)
