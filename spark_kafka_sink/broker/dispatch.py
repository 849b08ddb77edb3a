"""From a frame to its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from spark_kafka_sink.base.errors import ProtocolError
from spark_kafka_sink.broker.call import Call
from spark_kafka_sink.broker.exchange import Exchange
from spark_kafka_sink.broker.faults.injector import Injector
from spark_kafka_sink.broker.handlers import HANDLERS
from spark_kafka_sink.broker.handlers.api_versions import unsupported_version
from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import read_request_header, read_request_start
from spark_kafka_sink.protocol.versions import ApiKey, request_type

if TYPE_CHECKING:
    from spark_kafka_sink.broker.call import Handler
    from spark_kafka_sink.broker.connection import Connection
    from spark_kafka_sink.broker.refusals import Refusals
    from spark_kafka_sink.broker.state import Cluster

Answered: TypeAlias = Callable[["Connection"], None]


class Dispatcher:
    """Hands requests to handlers; `answered` is told when a connection may go on."""

    __slots__ = ("_answered", "_cluster", "_injector", "_refusals")

    def __init__(self, cluster: Cluster, answered: Answered, refusals: Refusals) -> None:
        self._cluster = cluster
        self._answered = answered
        self._refusals = refusals
        self._injector = Injector(cluster)

    def dispatch(self, frame: memoryview, connection: Connection) -> None:
        """Serve one request.

        Raises:
            ProtocolError: it can't be understood, and the connection has to end (as in Kafka).
        """
        api, version, correlation_id = read_request_start(frame)
        handler = HANDLERS.get(api)
        if handler is not None and version not in handler.versions and api == ApiKey.API_VERSIONS:
            oldest = self._exchange(handler, (0, correlation_id), connection)
            oldest.send(unsupported_version())
            return
        if handler is None or version not in handler.versions:
            raise ProtocolError(f"a request of API {api} version {version} is not served here")
        header = read_request_header(frame)
        request, _ = decode(request_type(api, version), frame, header.body_offset)
        exchange = self._exchange(handler, (version, correlation_id), connection)
        call = Call(
            cluster=self._cluster,
            node=connection.node,
            version=version,
            request=request,
            client_id=header.client_id or "",
            client_host=connection.peer,
            reply=exchange.reply,
            is_closed=lambda: connection.closed,
        )
        self._injector.serve(exchange, call)

    def _exchange(
        self, handler: Handler, about: tuple[int, int], connection: Connection
    ) -> Exchange:
        return Exchange(handler, about, connection, self._answered, self._refusals)
