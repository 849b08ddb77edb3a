"""One client connection: frames in, one request at a time, responses out, errors logged.

Received bytes of one connection, put together to frames with as little copying as there can be.

Small frames come many at a time through a buffer that all connections share, and are copied out of
it. A frame that did not fit gets a buffer of its own, into which the socket writes the rest.

Every refused request is logged: what was refused, to whom, and why.

Errors that are part of the protocol's ordinary course, such as a rebalance, are logged as
information; all others are warnings.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker import authorization
from spark_kafka_sink.broker.handlers.request_context import REASON, Outcome
from spark_kafka_sink.broker.requests import BY_PARTITION
from spark_kafka_sink.broker.security.authenticator import MAX_RECEIVE_BYTES
from spark_kafka_sink.broker.security.server_security import ANONYMOUS
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.frame import MAX_FRAME, SIZE_BYTES, FrameReader
from spark_kafka_sink.protocol.messages import (
    Values,
    build,
    framed,
    response_header,
    response_parts,
)
from spark_kafka_sink.protocol.produce_response import plain_produce_response
from spark_kafka_sink.protocol.versions import ApiKey, response_type

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from spark_kafka_sink.broker.handlers.request_context import Handler, RequestContext
    from spark_kafka_sink.broker.security.authenticator import SaslServerAuthenticator


_FIRST_ROOM = 4 * 1024 * 1024
"""Bytes: room for the rest of a frame before more of it has come; then it grows fourfold."""
_DIRECT_FROM = 64 * 1024
"""Bytes: a smaller frame is cheaper to join than to receive by itself."""


class FrameBuffer:
    """Collects bytes that a socket writes into `room`, and hands out whole frames.

    A frame's memory grows with the bytes that come: a size alone, which anybody can claim, is
    worth a few MiB, and the system gives those page by page.
    """

    __slots__ = ("_at", "_frame", "_reader", "_size")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._reader = FrameReader(limit)
        self._frame: memoryview | None = None
        self._at = 0
        self._size = 0

    def set_limit(self, limit: int) -> None:
        """Take larger or smaller frames from now on."""
        self._reader.set_limit(limit)

    def room(self, shared: memoryview) -> memoryview:
        """Where the next bytes belong: a large frame's own memory, or the shared buffer."""
        return shared if self._frame is None else self._frame[self._at :]

    def received(self, room: memoryview, count: int) -> list[memoryview]:
        """Take `count` bytes that were written into `room`; return the frames that are complete.

        Raises:
            ProtocolError: a size is negative or above the limit; the stream is lost then.
        """
        if self._frame is None:
            frames = self._reader.feed(bytes(room[:count]))
            self._begin_frame()
            return frames
        self._at += count
        if self._at < self._size:
            self._grow(self._frame)
            return []
        whole, self._frame = self._frame, None
        return [whole]

    def _begin_frame(self) -> None:
        missing = self._reader.missing
        if missing < _DIRECT_FROM:
            return
        begun = self._reader.take_rest()[SIZE_BYTES:]
        self._size = len(begun) + missing
        self._frame = _memory(min(self._size, len(begun) + _FIRST_ROOM))
        self._frame[: len(begun)] = begun
        self._at = len(begun)

    def _grow(self, frame: memoryview) -> None:
        if self._at == len(frame):
            self._frame = _memory(min(self._size, 4 * len(frame)))
            self._frame[: self._at] = frame


def _memory(size: int) -> memoryview:
    """Bytes that nobody has touched yet: a bytearray would begin by filling itself with zeros."""
    return np.empty(size, np.uint8).data


MAX_UNSENT = 4 * 1024 * 1024
"""Bytes waiting for a slow reader before its next request is looked at."""
MAX_PARTS = 256
"""Buffers for one gathering write, below every system's limit."""


class Connection:
    """Frames that were received, and answers that are not sent yet.

    Like Kafka's, it looks at one request at a time, so answers keep their order even when one has
    to wait.
    """

    __slots__ = (
        "_frames",
        "_outgoing",
        "authenticator",
        "backlog",
        "busy",
        "closed",
        "ending",
        "is_encrypted",
        "node",
        "peer",
        "unsent",
        "user",
        "watched",
    )

    def __init__(self, node: int, peer: str) -> None:
        self.node = node
        self.peer = peer
        self.backlog: deque[memoryview] = deque()
        self.busy = False
        self.closed = False
        self.ending = False
        self.unsent = 0
        self.watched = 0
        self.is_encrypted = False
        self.authenticator: SaslServerAuthenticator | None = None
        """What every request has to pass; None where it is not asked for."""
        self.user: str | None = ANONYMOUS
        """Who the client is; None as long as that is open."""
        self._frames = FrameBuffer()
        self._outgoing: deque[memoryview] = deque()

    def begin_securely(
        self, authenticator: SaslServerAuthenticator | None, *, is_encrypted: bool
    ) -> None:
        """Have the client prove who it is by SASL or a certificate; by SASL in small frames."""
        self.is_encrypted, self.authenticator, self.user = is_encrypted, authenticator, None
        if authenticator is not None:
            self._frames.set_limit(MAX_RECEIVE_BYTES)
        elif not is_encrypted:
            self.user = ANONYMOUS

    def authenticated(self, user: str) -> None:
        """Note who the client is."""
        self.user = user
        self._frames.set_limit(MAX_FRAME)

    @property
    def wants_input(self) -> bool:
        """Whether there is room for more requests; a waiting one still notices a disconnect."""
        return not self.backlog and self.unsent < MAX_UNSENT

    def room(self, shared: memoryview) -> memoryview:
        """Where the socket should write the next bytes; see `FrameBuffer`."""
        return self._frames.room(shared)

    def received(self, room: memoryview, count: int) -> None:
        """Take bytes written into `room`; raises ProtocolError when they can't be Kafka's."""
        self.backlog.extend(self._frames.received(room, count))

    @property
    def is_finished(self) -> bool:
        """Whether it was to end once everything is sent, and everything is."""
        return self.ending and not self.unsent

    @property
    def may_go_on(self) -> bool:
        """Whether a request that is there may be served: after a write no event may tell."""
        return not self.busy and not self.closed and self.unsent < MAX_UNSENT

    def take_request(self) -> memoryview | None:
        """Take the request to serve now, if any; the next one waits until it is answered."""
        if not self.backlog or not self.may_go_on:
            return None
        self.busy = True
        return self.backlog.popleft()

    def answered(self, parts: Sequence[bytes | memoryview]) -> None:
        """Queue an answer (of no parts where there is none); the next request may come."""
        self.busy = False
        for part in parts:
            self._outgoing.append(memoryview(part))
            self.unsent += len(part)

    def to_send(self) -> list[memoryview]:
        """Parts for one gathering write."""
        return [self._outgoing[i] for i in range(min(len(self._outgoing), MAX_PARTS))]

    def sent(self, count: int) -> None:
        """Drop what was written."""
        self.unsent -= count
        while count:
            first = self._outgoing[0]
            if count < len(first):
                self._outgoing[0] = first[count:]
                return
            count -= len(first)
            self._outgoing.popleft()


QUIET_SECONDS: Final = 10.0
MOST_KINDS: Final = 1000


@dataclass(slots=True)
class _Said:
    at: float
    more: int = 0


class RepeatLog:
    """Logs the first message of a kind, and then one in `QUIET_SECONDS` with the number between.

    Args:
        log: where to.
        now: seconds of a monotonic clock.
    """

    __slots__ = ("_log", "_now", "_said")

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._said: dict[Hashable, _Said] = {}

    def log(self, level: int, kind: Hashable, message: str, *args: object) -> None:
        """Log a message with its arguments, unless one of its kind was logged a moment ago."""
        if not self._log.isEnabledFor(level):
            return
        now, said = self._now(), self._said.get(kind)
        if said is not None and now - said.at < QUIET_SECONDS:
            said.more += 1
            return
        more = f" (and {said.more:,} more like it)" if said is not None and said.more else ""
        if len(self._said) >= MOST_KINDS:
            self._said.clear()
        self._said[kind] = _Said(now)
        self._log.log(level, message + more, *args)


EXPECTED_ERRORS: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.concurrent_transactions,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.leader_not_available,
        ErrorCode.member_id_required,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.rebalance_in_progress,
        ErrorCode.topic_already_exists,
        ErrorCode.unknown_member_id,
        ErrorCode.unsupported_version,
    }
)
"""Errors that clients handle in normal operation."""

_RESULT_FIELDS: Final = ("topics", "responses", "results", "groups", "coordinators", "resources")


class ErrorLog:
    """Logs the error codes in responses before they are sent."""

    __slots__ = ("_log",)

    def __init__(self, log: RepeatLog) -> None:
        self._log = log

    def log_errors(self, api: int, connection: Connection, values: Values) -> None:
        """Log the errors in a response; repeated ones are rate-limited."""
        for subject, item in _errors(api, values):
            code = item.get("error_code", ErrorCode.none)
            level = logging.INFO if code in EXPECTED_ERRORS else logging.WARNING
            name = getattr(code, "name", str(code)).upper()
            reason = item.get(REASON) or item.get("error_message") or ""
            self._log.log(
                level,
                (api, subject, name),
                "%s%s of %s was refused: %s%s",
                ApiKey(api).name,
                f" at {subject}" if subject else "",
                connection.peer,
                name,
                f": {reason}" if reason else "",
            )

    def disconnected(self, connection: Connection, why: object) -> None:
        """Log that a connection is ended because what came through it can't be served."""
        kind = ("disconnected", type(why), str(why))
        text = "%s is disconnected: %s"
        self._log.log(logging.WARNING, kind, text, connection.peer, why)


def _errors(api: int, values: Values) -> Iterator[tuple[str, Values]]:
    """The failed parts of a response, each with the name of what failed."""
    if values.get("error_code", ErrorCode.none) is not ErrorCode.none:
        yield "", values
    shape = BY_PARTITION.get(api)
    if shape is None:
        yield from _item_errors(values)
        return
    for topic in values.get(shape.answers) or ():
        for part in topic.get(shape.answer_partitions) or ():
            if part.get(shape.error, ErrorCode.none) is not ErrorCode.none:
                name = topic.get("name") or topic.get("topic") or topic.get("topic_id")
                yield f"{name}-{part.get(shape.answer_index)}", _with_error_code(part, shape.error)


def _with_error_code(part: Values, error: str) -> Values:
    return part if error == "error_code" else {**part, "error_code": part[error]}


def _item_errors(values: Values) -> Iterator[tuple[str, Values]]:
    for name in _RESULT_FIELDS:
        items: Any = values.get(name) or ()
        for item in items:
            if item.get("error_code", ErrorCode.none) is not ErrorCode.none:
                yield str(_name_of(item)), item


def _name_of(item: Values) -> object:
    names = ("name", "group_id", "key", "resource_name", "topic_id", "transactional_id")
    return next((item[name] for name in names if item.get(name)), "")


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
            answer = authorization.handle(self._handler, context)
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
