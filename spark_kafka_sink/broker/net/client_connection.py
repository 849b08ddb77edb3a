"""A client connection, which serves one request at a time, and the log of failed requests.

`FrameBuffer` assembles frames with as little copying as possible. Small frames (often several per
read) are received into a buffer that all connections share, and are then copied. An incomplete
large frame gets its own buffer, into which the rest of the frame is received directly.

`ClientConnection` queues received requests and unsent responses.

`ErrorLog` logs every failed request with the client and the reason. Errors that occur in normal
operation, such as a rebalance, are logged at level INFO, and all other errors at level WARNING.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import REASON
from spark_kafka_sink.broker.request_shapes import BY_PARTITION
from spark_kafka_sink.broker.security.denials import ANONYMOUS
from spark_kafka_sink.broker.security.sasl_server import MAX_RECEIVE_BYTES
from spark_kafka_sink.kafka.protocol.frame import MAX_FRAME, SIZE_BYTES, FrameReader
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from spark_kafka_sink.broker.security.sasl_server import SaslServerAuthenticator
    from spark_kafka_sink.kafka.protocol.messages import Values


_FIRST_ROOM = 4 * 1024 * 1024
"""Initial free space in a large frame's buffer in bytes. A full buffer grows by a factor of 4."""
_DIRECT_FROM = 64 * 1024
"""Minimum number of missing bytes for a separate buffer. For fewer bytes, joining chunks is
cheaper.
"""
MAX_UNSENT = 4 * 1024 * 1024
"""Number of unsent response bytes above which a connection's next request must wait."""
MAX_PARTS = 256
"""Maximum number of buffers for one gathering write, below the limit of every system."""
QUIET_SECONDS: Final = 10.0
MAX_KINDS: Final = 1000
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


class FrameBuffer:
    """Collects the bytes that are received into `room`, and returns complete frames.

    A frame's buffer grows as bytes are received. The frame size in the header is not trusted: it
    causes an allocation of a few MiB at most, which the operating system commits page by page.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._reader = FrameReader(limit)
        self._frame: memoryview | None = None
        self._at = 0
        self._size = 0

    def set_limit(self, limit: int) -> None:
        """Change the maximum size of later frames, in bytes."""
        self._reader.set_limit(limit)

    def room(self, shared: memoryview) -> memoryview:
        """Return the buffer for received bytes: an incomplete large frame's buffer, or `shared`."""
        return shared if self._frame is None else self._frame[self._at :]

    def add(self, room: memoryview, count: int) -> list[memoryview]:
        """Process `count` bytes that were received into `room`; return the complete frames.

        Raises:
            ProtocolError: a frame size is negative or above the limit; the connection must be
                closed.
        """
        if self._frame is None:
            frames = self._reader.feed(bytes(room[:count]))
            self._begin_frame()
            return frames
        self._at += count
        if self._at < self._size:
            self._grow(self._frame)
            return []
        frame, self._frame = self._frame, None
        return [frame]

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
    """Return uninitialized memory. Unlike a bytearray, it is not filled with zeros."""
    return np.empty(size, np.uint8).data


class ClientConnection:
    """The received frames and unsent responses of a connection.

    As in Kafka, a connection serves one request at a time, so responses are sent in the order of
    the requests even if a response is delayed.
    """

    def __init__(self, node: int, peer: str) -> None:
        self.node = node
        self.peer = peer
        self.backlog: deque[memoryview] = deque()
        self.busy = False
        self.closed = False
        self.is_ending = False
        self.unsent = 0
        self.watched = 0
        self.is_encrypted = False
        self.authenticator: SaslServerAuthenticator | None = None
        """The SASL authenticator, which checks every request, or None if SASL is not used."""
        self.user: str | None = ANONYMOUS
        """The name of the client's principal, or None until the client is authenticated."""
        self._frames = FrameBuffer()
        self._outgoing: deque[memoryview] = deque()

    def begin_securely(
        self, authenticator: SaslServerAuthenticator | None, *, is_encrypted: bool
    ) -> None:
        """Require authentication by SASL or a certificate.

        The frame size is limited until the SASL authentication is complete.
        """
        self.is_encrypted = is_encrypted
        self.authenticator = authenticator
        self.user = None
        if authenticator is not None:
            self._frames.set_limit(MAX_RECEIVE_BYTES)
        elif not is_encrypted:
            self.user = ANONYMOUS

    def set_user(self, user: str) -> None:
        """Store the authenticated user, and set the frame size limit for authenticated clients."""
        self.user = user
        self._frames.set_limit(MAX_FRAME)

    @property
    def wants_input(self) -> bool:
        """True if the socket should be read.

        Reading continues while a request is being served, so that a disconnect is detected.
        """
        return not self.backlog and self.unsent < MAX_UNSENT

    def room(self, shared: memoryview) -> memoryview:
        """Return the buffer for received bytes; see `FrameBuffer`."""
        return self._frames.room(shared)

    def add_received(self, room: memoryview, count: int) -> None:
        """Process `count` bytes that were received into `room`.

        Raises:
            ProtocolError: the bytes are not a valid Kafka frame.
        """
        self.backlog.extend(self._frames.add(room, count))

    @property
    def is_finished(self) -> bool:
        """True if the connection must be closed and its last response has been sent."""
        return self.is_ending and not self.unsent

    @property
    def can_serve(self) -> bool:
        """True if a received request can be served now. No socket event indicates this."""
        return not self.busy and not self.closed and self.unsent < MAX_UNSENT

    def take_request(self) -> memoryview | None:
        """Return the next request, or None. Later requests wait until `add_response` is called."""
        if not self.backlog or not self.can_serve:
            return None
        self.busy = True
        return self.backlog.popleft()

    def add_response(self, parts: Sequence[bytes | memoryview]) -> None:
        """Queue the response, if any, and allow the next request."""
        self.busy = False
        for part in parts:
            self._outgoing.append(memoryview(part))
            self.unsent += len(part)

    def to_send(self) -> list[memoryview]:
        """Return the buffers for one gathering write."""
        return [self._outgoing[i] for i in range(min(len(self._outgoing), MAX_PARTS))]

    def drop_sent(self, count: int) -> None:
        """Drop the first `count` bytes of the unsent responses."""
        self.unsent -= count
        while count:
            first = self._outgoing[0]
            if count < len(first):
                self._outgoing[0] = first[count:]
                return
            count -= len(first)
            self._outgoing.popleft()


@dataclass(slots=True)
class _Repeated:
    """The time when a message was last logged, and how often it was suppressed since then."""

    logged_at: float
    suppressed: int = 0


class RepeatLog:
    """Logs at most one message of each kind per `QUIET_SECONDS`, with a repeat count.

    Args:
        log: the underlying logger.
        now: returns the time in monotonic seconds.
    """

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._last: dict[Hashable, _Repeated] = {}

    def log(self, level: int, kind: Hashable, message: str, *args: object) -> None:
        """Log a message with its arguments, unless a message of its kind was logged recently."""
        if not self._log.isEnabledFor(level):
            return
        now, last = self._now(), self._last.get(kind)
        if last is not None and now - last.logged_at < QUIET_SECONDS:
            last.suppressed += 1
            return
        repeated = f" (repeated {last.suppressed:,} times)" if last and last.suppressed else ""
        if len(self._last) >= MAX_KINDS:
            self._last.clear()
        self._last[kind] = _Repeated(now)
        self._log.log(level, message + repeated, *args)


class ErrorLog(RepeatLog):
    """Logs the error codes in responses before the responses are sent."""

    def log_errors(self, api: int, connection: ClientConnection, values: Values) -> None:
        """Log the errors in a response. Repeated errors are rate-limited."""
        for subject, item in _errors(api, values):
            code = item.get("error_code", ErrorCode.none)
            is_expected = code in EXPECTED_ERRORS and not item.get(REASON)
            level = logging.INFO if is_expected else logging.WARNING
            name = getattr(code, "name", str(code)).upper()
            reason = item.get(REASON) or item.get("error_message") or ""
            self.log(
                level,
                (api, subject, name),
                "%s request%s from %s failed: %s%s",
                ApiKey(api).name,
                f" for {subject}" if subject else "",
                connection.peer,
                name,
                f": {reason}" if reason else "",
            )

    def log_disconnect(self, connection: ClientConnection, why: object) -> None:
        """Log that the broker closes a connection, and the reason."""
        kind = ("disconnected", type(why), str(why))
        self.log(logging.WARNING, kind, "closing connection %s: %s", connection.peer, why)


def _errors(api: int, values: Values) -> Iterator[tuple[str, Values]]:
    """Yield the failed parts of a response, each with the name of the failed resource."""
    if values.get("error_code", ErrorCode.none) is not ErrorCode.none:
        yield "", values
    shape = BY_PARTITION.get(api)
    if shape is None:
        yield from _item_errors(values)
        return
    for topic in values.get(shape.answers) or ():
        for part in topic.get(shape.answer_partitions) or ():
            code = part.get(shape.error, ErrorCode.none)
            if code is not ErrorCode.none:
                name = topic.get("name") or topic.get("topic") or topic.get("topic_id")
                yield f"{name}-{part.get(shape.answer_index)}", {**part, "error_code": code}


def _item_errors(values: Values) -> Iterator[tuple[str, Values]]:
    for name in _RESULT_FIELDS:
        items: Any = values.get(name) or ()
        for item in items:
            if item.get("error_code", ErrorCode.none) is not ErrorCode.none:
                yield str(_name_of(item)), item


def _name_of(item: Values) -> object:
    names = ("name", "group_id", "key", "resource_name", "topic_id", "transactional_id")
    return next((item[name] for name in names if item.get(name)), "")
