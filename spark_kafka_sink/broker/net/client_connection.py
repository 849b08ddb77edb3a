"""A client connection, which serves one request at a time.

`FrameBuffer` assembles frames with as little copying as possible. Small frames (often several per
read) are received into a buffer that all connections share, and are then copied. An incomplete
large frame gets its own buffer, into which the rest of the frame is received directly.

`ClientConnection` queues received requests and unsent responses.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.broker.security.sasl_server import MAX_RECEIVE_BYTES
from spark_kafka_sink.kafka.protocol.frame import MAX_FRAME, SIZE_BYTES, FrameReader
from spark_kafka_sink.kafka.security.acl_commands import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.security.sasl_server import SaslServerAuthenticator


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
