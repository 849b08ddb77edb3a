"""Decode request frames and dispatch them to handlers, in the loop or beside it.

Requests beside the event loop: for a storage that is a network away, such as Redis.

As Kafka's KafkaRequestHandler stands beside its network Processor, here with one thread: requests
that may wait for the storage come one after the other, the sockets and requests about the cluster
alone go on meanwhile.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_kafka_sink.broker.handlers.api_versions import unsupported_version
from spark_kafka_sink.broker.handlers.registry import handlers_of
from spark_kafka_sink.broker.handlers.request_context import RequestContext
from spark_kafka_sink.broker.net.connection import ResponseChannel
from spark_kafka_sink.broker.net.sasl_gate import SaslGate
from spark_kafka_sink.broker.security.server_security import ANONYMOUS
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import read_request_header, read_request_start
from spark_kafka_sink.protocol.produce_request import plain_produce_request
from spark_kafka_sink.protocol.versions import ApiKey, request_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.handlers.request_context import Handler
    from spark_kafka_sink.broker.net.connection import Connection, Network
    from spark_kafka_sink.broker.state_lock import StateLock


_WITHOUT_STORAGE: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.METADATA,
    }
)


def expects_no_response(api: int, context: RequestContext) -> bool:
    """Whether it is a Produce request with acks=0."""
    return api == ApiKey.PRODUCE and context.request.acks == 0


class RequestInterceptor(Protocol):
    """Sits between requests and their handlers; fault injection implements it."""

    @property
    def is_active(self) -> bool:
        """Whether it may do anything but forward requests."""
        ...

    def serve(self, channel: ResponseChannel, context: RequestContext) -> None:
        """Handle a request by `ResponseChannel.handle`, or do something else to it.

        Raises:
            ProtocolError: the connection has to end.
        """
        ...


class Dispatcher:
    """Decodes requests and dispatches them to their handlers.

    Args:
        cluster: the state that handlers work on.
        network: takes responses.
        interceptor: every request passes through it.
    """

    __slots__ = ("_cluster", "_gate", "_handlers", "_interceptor", "_network")

    def __init__(self, cluster: Cluster, network: Network, interceptor: RequestInterceptor) -> None:
        self._cluster = cluster
        self._handlers = handlers_of(cluster.config.release)
        self._network = network
        self._interceptor = interceptor
        delay = cluster.config.security.failure_delay_ms / 1000
        self._gate = SaslGate(self._handlers, network, cluster.clock, delay)

    def read(
        self, frame: memoryview, connection: Connection
    ) -> tuple[ResponseChannel, RequestContext] | None:
        """Decode a request; None if it was answered here.

        That is ApiVersions of an unknown version, and what authenticates the client.

        Raises:
            ProtocolError: it can't be understood, and the connection has to end (as in Kafka).
        """
        if connection.authenticator is not None and not self._gate.admits(frame, connection):
            return None
        api, version, correlation_id = read_request_start(frame)
        handler = self._handlers.get(api)
        if handler is not None and version not in handler.versions and api == ApiKey.API_VERSIONS:
            oldest = ResponseChannel(handler, 0, correlation_id, connection, self._network)
            oldest.send(unsupported_version(handler.versions))
            return None
        if handler is None or version not in handler.versions:
            raise ProtocolError(_unsupported_message(api, version, handler))
        header = read_request_header(frame)
        request = _read_body(api, version, frame, header.body_offset)
        channel = ResponseChannel(handler, version, correlation_id, connection, self._network)
        context = RequestContext(
            cluster=self._cluster,
            node=connection.node,
            version=version,
            request=request,
            client_id=header.client_id or "",
            client_host=connection.peer,
            user=connection.user or ANONYMOUS,
            reply=channel.reply,
            is_closed=lambda: connection.closed,
        )
        return channel, context

    def serve(self, channel: ResponseChannel, context: RequestContext) -> None:
        """Serve a request.

        Raises:
            ProtocolError: the connection has to end.
        """
        self._interceptor.serve(channel, context)

    def may_wait_for_storage(self, channel: ResponseChannel, context: RequestContext) -> bool:
        """Whether a request may have to wait for the storage; cluster requests never do."""
        if channel.api not in _WITHOUT_STORAGE or self._interceptor.is_active:
            return True
        topics = self._cluster.topics
        asked = context.get("topics", None) if channel.api == ApiKey.METADATA else None
        return any(topics.named(item.name) is None for item in asked or ())


def _read_body(api: int, version: int, frame: memoryview, offset: int) -> Any:
    plain = plain_produce_request(version, frame, offset) if api == ApiKey.PRODUCE else None
    return decode(request_type(api, version), frame, offset)[0] if plain is None else plain


def _unsupported_message(api: int, version: int, handler: Handler | None) -> str:
    if handler is None:
        return f"a request of API {api} version {version} is not served here"
    text = f"a request of {handler.api.name} version {version} is not served here, "
    text += f"only versions {handler.versions}"
    if version > handler.versions.highest:
        return f"{text}: the client does not ask for ApiVersions, or ignores the answer"
    return f"{text}: the client is too old for Kafka 4, or is set to an old version"


LOG = logging.getLogger(__name__)
LONGEST_WAIT: Final = 0.1
STOP_SECONDS: Final = 10.0
MOST_WAITING: Final = 64
"""Requests: what waits for a slow storage is memory."""


class RequestHandler:
    """Runs what it is given, and the cluster's tick, holding the lock on its state.

    Args:
        lock: on the cluster's state.
    """

    __slots__ = ("_queue", "_stopping", "_thread", "lock")

    def __init__(self, lock: StateLock) -> None:
        self.lock = lock
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, cluster: Cluster) -> None:
        """Begin the thread; what was submitted before runs on it."""
        self._thread = threading.Thread(
            target=self._run, args=(cluster,), name="kafkaprod-broker-requests", daemon=True
        )
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether so few requests wait that those without an answer may be put aside."""
        return self._queue.qsize() < MOST_WAITING

    def submit(self, job: Callable[[], None]) -> None:
        """Run a function after those that were submitted before."""
        self._queue.put(job)

    def stop(self) -> None:
        """Finish what runs, leave the rest."""
        self._stopping = True
        self._queue.put(lambda: None)
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self, cluster: Cluster) -> None:
        while not self._stopping:
            job = self._next(cluster)
            with self.lock:
                self._safely(job)
                self._safely(cluster.tick)

    def _next(self, cluster: Cluster) -> Callable[[], None]:
        deadline = cluster.next_deadline()
        wait = LONGEST_WAIT
        if deadline is not None:
            wait = min(wait, max(0.0, deadline - cluster.clock.monotonic()))
        try:
            return self._queue.get(timeout=wait)
        except Empty:
            return lambda: None

    @staticmethod
    def _safely(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:
            LOG.exception("the broker goes on after an error")
