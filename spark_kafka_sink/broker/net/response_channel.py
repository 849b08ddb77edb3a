"""One request on a connection, and its answer on the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.authorization import authorized
from spark_kafka_sink.broker.handlers.request_context import Outcome
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.message_builder import Values, build
from spark_kafka_sink.protocol.messages import framed, response_header, response_parts
from spark_kafka_sink.protocol.produce.response_writer import plain_produce_response
from spark_kafka_sink.protocol.versions import ApiKey, response_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.broker.handlers.request_context import Handler, RequestContext
    from spark_kafka_sink.broker.net.connection import Connection
    from spark_kafka_sink.broker.net.error_log import ErrorLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What answers need of the event loop.

    Args:
        answered: told when a connection may go on, outside of its turn.
        deliver: runs on the loop's thread what touches a connection.
        call_later: runs a function on the loop's thread so many seconds later; called from there.
        error_log: where errors in answers are logged.
    """

    answered: Callable[[Connection], None]
    deliver: Callable[[Callable[[], None]], None]
    call_later: Callable[[float, Callable[[], None]], None]
    error_log: ErrorLog


class ResponseChannel:
    """Hands a request to its handler, and the answer to its connection.

    Faults use `changes`, which alter the answer's values, `cut`, after which many bytes of it the
    connection ends, and `lost`: the connection never says anything again.
    """

    __slots__ = (
        "_answered",
        "_connection",
        "_correlation_id",
        "_deliver",
        "_error_log",
        "_handler",
        "_let_go",
        "_version",
        "api",
        "changes",
        "cut",
        "lost",
    )

    def __init__(
        self,
        handler: Handler,
        version: int,
        correlation_id: int,
        connection: Connection,
        network: Network,
    ) -> None:
        self.api = int(handler.api)
        self._handler = handler
        self._version = version
        self._correlation_id = correlation_id
        self._connection = connection
        self._answered = network.answered
        self._deliver = network.deliver
        self._error_log = network.error_log
        self._let_go = False
        self.changes: list[Callable[[Values], Values]] = []
        self.cut: int | None = None
        self.lost = False

    def handle(self, context: RequestContext) -> None:
        """Serve the request.

        Raises:
            ProtocolError: the connection has to end.
        """
        if context.cluster.denials.is_active:
            answer = authorized.handle(self._handler, context)
        else:
            answer = self._handler.handle(context)
        if answer is Outcome.CLOSE:
            raise ProtocolError("a request without an answer failed, so the connection ends")
        if answer is Outcome.SILENT and not self._let_go:
            self._deliver(lambda: self._connection.answered(()))
        elif not isinstance(answer, Outcome):
            self.send(answer)

    def reply(self, values: Values) -> None:
        """Give the answer of a handler that returned LATER."""
        self.send(values)
        self.went_on()

    def let_go(self) -> None:
        """Let the connection go on before the request is handled, as it gets no answer."""
        self._let_go = True
        self._connection.answered(())

    def went_on(self) -> None:
        """Let the connection go on, outside of its turn."""
        self._deliver(lambda: self._answered(self._connection))

    def end(self) -> None:
        """End the connection once everything is sent."""
        self._deliver(self._end)

    def _end(self) -> None:
        self._connection.ending = True

    def send(self, values: Values) -> None:
        """Queue the answer."""
        if self._connection.closed or self.lost:
            return
        self._error_log.log_errors(self.api, self._connection, values)
        for change in self.changes:
            values = change(values)
        parts = self._parts(values)
        if self.cut is not None:
            parts = _first_bytes(parts, self.cut)
            self.end()
        self._deliver(lambda: self._connection.answered(parts))

    def _parts(self, values: Values) -> list[bytes | memoryview]:
        kind = response_type(self.api, self._version)
        plain = None
        if self.api == ApiKey.PRODUCE:
            plain = plain_produce_response(self._version, values)
        if plain is not None:
            return [framed(response_header(kind, self._correlation_id), plain)]
        return response_parts(build(kind, values), self._correlation_id)


def _first_bytes(parts: Sequence[bytes | memoryview], count: int) -> list[bytes | memoryview]:
    return [memoryview(b"".join(parts))[:count]]
