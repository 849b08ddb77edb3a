"""Decodes request frames and dispatches them to the handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_kafka_sink.broker.handlers.api_versions import unsupported_version
from spark_kafka_sink.broker.handlers.registry import handlers_of
from spark_kafka_sink.broker.handlers.request_context import RequestContext
from spark_kafka_sink.broker.net.response_channel import ResponseChannel
from spark_kafka_sink.broker.net.sasl_gate import SaslGate
from spark_kafka_sink.broker.security.server_security import ANONYMOUS
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import read_request_header, read_request_start
from spark_kafka_sink.protocol.produce.request_reader import plain_produce_request
from spark_kafka_sink.protocol.versions import ApiKey, request_type

if TYPE_CHECKING:
    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.handlers.request_context import Handler
    from spark_kafka_sink.broker.net.connection import Connection
    from spark_kafka_sink.broker.net.response_channel import Network

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
