"""A Kafka client that runs on the caller's thread and is reused between calls.

- `BlockingClient` sends requests, waits for responses and handles them on the caller's thread.
  Requests to many brokers can be in flight concurrently. Connections, TLS, SASL and metadata are
  provided by the `client` package.
- `borrowed_client` reuses clients between calls, because Spark's planning and commit processes
  exist as long as a query and are used once per micro-batch.

Source: ``NetworkClient`` under ``KafkaAdminClient``, ``KafkaApis``.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.common.errors import BrokerUnavailableError, ProtocolError
from spark_kafka_sink.kafka.blocking.coordinator_cache import CoordinatorCache
from spark_kafka_sink.kafka.client.client import Client
from spark_kafka_sink.kafka.client.client_pool import ClientPool
from spark_kafka_sink.kafka.client.metadata import Metadata
from spark_kafka_sink.kafka.client.request import Completion, Loss, Request
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.transactions import NO_COORDINATOR_HINT, TransactionVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from spark_kafka_sink.config.client_config import ClientConfig
    from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
    from spark_kafka_sink.kafka.client.channel.background import Calls
    from spark_kafka_sink.kafka.client.channel.connection_failures import ConnectionFailures
    from spark_kafka_sink.kafka.client.channel.transport import Connect
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot, Node
    from spark_kafka_sink.kafka.protocol.versions import ApiKey
    from spark_kafka_sink.kafka.security.credentials_fingerprint import CredentialsFingerprint


MAX_IN_FLIGHT = 100
"""Maximum requests in flight to a broker, which processes the requests of a connection in order."""
_LONG_THROTTLE_S = 1.0
"""Seconds of throttling from which an error about a timeout mentions it."""
_QUOTA_HINT = (
    "The brokers enforce a quota (producer_byte_rate, request_percentage) on this user or "
    "client.id: raise it, write less at a time, or raise kafka.max.block.ms."
)
_UNREACHED = "Check that the brokers of kafka.bootstrap.servers are running and reachable."
_HINTS: dict[int | None, str] = {ErrorCode.coordinator_not_available: NO_COORDINATOR_HINT}
_ADMIN_CLIENT_ID = "kafkaprod-admin"
idle_blocking_clients: ClientPool[BlockingClient, None] = ClientPool()
"""Idle clients of this process; their connections and cluster metadata are reused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCompletion:
    """A completed request: the response, or the reason for a failure."""

    node: Node
    version: int = -1
    """The API version; valid only with a response."""
    transaction_version: TransactionVersion = TransactionVersion.V1
    """The transaction protocol that the broker supports; valid only with a response."""
    response: Any = None
    failure: str | None = None
    is_written: bool = True
    """True if the broker might have processed the request."""
    is_oldest: bool = True
    """See `Completion`."""
    loss: Loss | None = None
    """See `Completion`."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class QueuedRequest:
    """A request to `node`."""

    node: Node
    api: ApiKey
    body: Callable[[int], list[Buffer]]
    """Encodes the request in the negotiated version."""
    done: Callable[[RequestCompletion], None]
    """Called once, on the thread that calls `BlockingClient.run_once`."""
    max_version: int | None = None
    """The maximum version."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A request in flight, with its API version and the broker's transaction protocol."""

    queued: QueuedRequest
    version: int
    transaction_version: TransactionVersion


@dataclass(frozen=True, slots=True)
class _Queue:
    """Requests that wait for a connection, or for earlier requests on that connection.

    `failures` is the number of failed connection attempts at the submission of the first request.
    """

    failures: int
    requests: deque[QueuedRequest]


class BlockingClient:
    """A Kafka client that runs on the caller's thread. It is a context manager.

    Only one thread at a time can use the client.

    Args:
        config: the connection settings; Metadata requests never create topics.
        connect: opens sockets; None for TCP.
        logins: runs the steps of logins; None for separate threads.
    """

    def __init__(
        self, config: ClientConfig, connect: Connect | None = None, logins: Calls | None = None
    ) -> None:
        self.config = config
        quiet = replace(config, allow_auto_create_topics=False)
        self._client = Client(quiet, connect=connect, logins=logins)
        self._network = self._client.network
        self._network.set_client_id(_ADMIN_CLIENT_ID)
        self.clock = self._client.clock
        self.metadata = self._client.metadata
        self.random = self._client.random
        self.coordinators = CoordinatorCache()
        self._queues: dict[Node, _Queue] = {}
        self._in_flight: set[_Sent] = set()
        self._throttled_s: dict[str, float] = {}
        """Total throttle time in seconds for the current user of this client, by broker address."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.abandon()
        self._client.close()

    @property
    def cluster(self) -> ClusterSnapshot:
        """The current snapshot of the cluster."""
        return self.metadata.cluster

    @property
    def credentials(self) -> CredentialsFingerprint:
        """Fingerprint of the credentials at creation, to detect changes of referenced secrets."""
        return self._client.credentials

    @property
    def failures(self) -> ConnectionFailures:
        """Connection failures by address."""
        return self._network.failures

    def brokers(self) -> list[BrokerConnection]:
        """Return all known brokers, including disconnected brokers."""
        return self._network.brokers()

    def now(self) -> float:
        """Return the current time in seconds of the clock to which deadlines refer."""
        return self.clock.monotonic()

    def deadline(self, seconds: float) -> float:
        """Return the deadline `seconds` from now."""
        return self.now() + seconds

    def submit(self, request: QueuedRequest) -> None:
        """Queue a request. `run_once` sends it as soon as its broker is connected."""
        queue = self._queues.get(request.node)
        if queue is None:
            queue = self._queues[request.node] = _Queue(
                self._network.failed_attempts(request.node), deque()
            )
        queue.requests.append(request)

    def run_once(self, wait: float) -> None:
        """Send queued requests, wait at most `wait` seconds, and process the responses.

        Raises:
            AuthenticationError: the brokers do not accept this client.
            ProtocolError: a broker does not support the API of a request.
        """
        now = self.now()
        for node in list(self._queues):
            self._send_queued(node, now)
        self.metadata.maybe_send(self._network, now)
        waits = (wait, self._network.seconds_until_due(now), self.metadata.seconds_until_due(now))
        for completion in self._network.poll(min(waits), self.clock.monotonic):
            self._complete(completion)
        self._fail_unreachable()
        if self.metadata.failure is not None:
            raise copy(self.metadata.failure)
        if (fatal := self._network.failures.fatal) is not None:
            raise copy(fatal)

    def ready_node(self) -> Node | None:
        """Return the ready broker with the fewest requests in flight, or None."""
        return self.metadata.least_loaded_node(self._network, self.now())

    def connect_any(self) -> None:
        """Start to connect to any broker."""
        self.metadata.connect_any(self._network, self.now())

    def version(self, node: Node, api: ApiKey, max_version: int | None = None) -> int | None:
        """Return the API version for requests to a broker, or None if it is not connected."""
        if not self._network.is_ready(node, self.now()):
            return None
        return self._network.broker(node.node_id).versions.latest_usable(api, max_version)

    def await_metadata(self, deadline: float | None) -> None:
        """Wait until the client has received metadata at least once.

        Raises:
            AuthenticationError: the brokers do not accept this client.
            BrokerUnavailableError: the deadline has passed.
        """
        while not self.metadata.answered_requests:
            self.pause(1.0, deadline, until_answered=True)

    def refresh_metadata(self, deadline: float | None) -> None:
        """Request new metadata and wait for it; raise the same errors as `await_metadata`."""
        earlier = self.metadata.sent_requests
        self.metadata.request_refresh()
        while self.metadata.answered_requests <= earlier:
            self.pause(1.0, deadline, until_answered=True)

    def pause(
        self, seconds: float, deadline: float | None, *, until_answered: bool = False
    ) -> None:
        """Run the client for `seconds`. With `until_answered`, call `run_once` only once.

        Raises:
            BrokerUnavailableError: the deadline has passed.
        """
        end = self.now() + seconds
        while True:
            now = self.now()
            if deadline is not None and now >= deadline:
                raise self.unavailable_error("waiting for the brokers")
            if now >= end:
                return
            self.run_once((end if deadline is None else min(end, deadline)) - now)
            if until_answered:
                return

    def forget_topics(self) -> None:
        """Drop topic metadata and throttle times, to prepare the client for its next user."""
        self._throttled_s.clear()
        self.metadata.end_session(self.now())

    def abandon(self) -> None:
        """Drop all submitted requests, without calling `done`."""
        self._queues.clear()
        self._in_flight.clear()

    @property
    def is_reusable(self) -> bool:
        """True if no request is queued or in flight, and the brokers accept this client."""
        return not self._queues and not self._in_flight and self.failures.fatal is None

    def unavailable_error(self, action: str, code: int | None = None) -> BrokerUnavailableError:
        """Return an error for an action that exceeded its deadline.

        Args:
            action: the action, such as "describing transactions".
            code: the latest retriable error code, or None.
        """
        reasons = sorted(self._network.failures.reasons.items())
        tried = "; ".join(f"{address}: {reason}" for address, reason in reasons)
        throttled = self._describe_throttling()
        hint = _HINTS.get(code, _UNREACHED)
        return BrokerUnavailableError(
            f"{action} exceeded its deadline"
            + (f": a quota throttles this client ({throttled})" if throttled else "")
            + (f". Tried {tried}" if tried else ""),
            kafka_error=None if code is None else error_name(code),
            hint=_QUOTA_HINT if throttled else hint,
        )

    def _describe_throttling(self) -> str:
        """Return a list of the brokers with long throttle times, such as "host:9092 for 12.3 s"."""
        return ", ".join(
            f"{address} for {seconds:.1f} s"
            for address, seconds in sorted(self._throttled_s.items())
            if seconds >= _LONG_THROTTLE_S
        )

    def _send_queued(self, node: Node, now: float) -> None:
        """Send a broker's queued requests, or connect to it."""
        if not self._network.is_ready(node, now):
            self._network.connect(node, now)
            return
        requests = self._queues[node].requests
        while requests and self._network.in_flight(node.node_id) < MAX_IN_FLIGHT:
            self._send(requests.popleft(), now)
            if not self._network.is_ready(node, now):
                return
        if not requests:
            del self._queues[node]

    def _send(self, queued: QueuedRequest, now: float) -> None:
        versions = self._network.broker(queued.node.node_id).versions
        try:
            version = versions.latest_usable(queued.api, queued.max_version)
        except ProtocolError as error:
            error.broker = str(queued.node)
            raise
        sent = _Sent(queued, version, versions.transaction_version)
        request = Request(api=queued.api, version=version, body=queued.body(version), context=sent)
        self._in_flight.add(sent)
        self._network.send(queued.node.node_id, request, now)

    def _complete(self, completion: Completion) -> None:
        sent: Any = completion.request.context
        if isinstance(sent, Metadata):
            self.metadata.handle_response(completion, self.now())
        elif sent in self._in_flight:
            self._in_flight.discard(sent)
            self._throttle(completion)
            sent.queued.done(
                RequestCompletion(
                    node=completion.node,
                    version=sent.version,
                    transaction_version=sent.transaction_version,
                    response=completion.response,
                    failure=completion.failure,
                    is_written=completion.is_written,
                    is_oldest=completion.is_oldest,
                    loss=completion.loss,
                )
            )

    def _throttle(self, completion: Completion) -> None:
        if pause_ms := completion.throttle_ms:
            seconds = pause_ms / 1000
            address = str(completion.node)
            self._throttled_s[address] = self._throttled_s.get(address, 0.0) + seconds
            self._network.throttle(completion.node.node_id, seconds, self.now())

    def _fail_unreachable(self) -> None:
        """Fail queued requests if a connection to their broker has failed since the submission."""
        for node, queue in list(self._queues.items()):
            if self._network.failed_attempts(node) <= queue.failures:
                continue
            del self._queues[node]
            reason = self._network.failures.reasons.get(str(node), "no connection")
            for request in queue.requests:
                request.done(RequestCompletion(node=node, failure=reason, is_written=False))


@contextmanager
def borrowed_client(config: ClientConfig) -> Iterator[BlockingClient]:
    """Yield an idle client of this process, or a new client. Retain the client for the next call.

    After an exception in the `with` block, the client is closed.
    """
    kept = idle_blocking_clients.borrow(config)
    client = BlockingClient(config) if kept is None else kept[0]
    try:
        yield client
    except BaseException:
        client.close()
        raise
    client.forget_topics()
    idle_blocking_clients.keep(client, None)
