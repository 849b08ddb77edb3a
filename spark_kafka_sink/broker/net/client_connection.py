"""A client connection, which serves one request at a time.

It queues received requests and unsent responses.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.net.frame_buffer import FrameBuffer
from spark_kafka_sink.broker.security.sasl_server import MAX_RECEIVE_BYTES, SaslServerAuthenticator
from spark_kafka_sink.kafka.protocol.frame import MAX_FRAME
from spark_kafka_sink.kafka.security.acl_commands import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Sequence


_MAX_UNSENT = 4 * 1024 * 1024
"""Number of unsent response bytes above which a connection's next request must wait."""
_MAX_PARTS = 256
"""Maximum number of buffers for one gathering write, below the limit of every system."""


class ClientConnection:
    """The received frames and unsent responses of a connection.

    As in Kafka, a connection serves one request at a time, so responses are sent in the order of
    the requests even if a response is delayed.
    """

    def __init__(self, node: int, peer: str) -> None:
        self.node = node
        self.peer = peer
        self.backlog: deque[memoryview] = deque()
        self.is_busy = False
        self.is_closed = False
        self.is_ending = False
        self.unsent = 0
        self.registered_events = 0
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
        return not self.backlog and self.unsent < _MAX_UNSENT

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
        return not self.is_busy and not self.is_closed and self.unsent < _MAX_UNSENT

    def take_request(self) -> memoryview | None:
        """Return the next request, or None. Later requests wait until `add_response` is called."""
        if not self.backlog or not self.can_serve:
            return None
        self.is_busy = True
        return self.backlog.popleft()

    def add_response(self, parts: Sequence[bytes | memoryview]) -> None:
        """Queue the response, if any, and allow the next request."""
        self.is_busy = False
        for part in parts:
            self._outgoing.append(memoryview(part))
            self.unsent += len(part)

    def to_send(self) -> list[memoryview]:
        """Return the buffers for one gathering write."""
        return [self._outgoing[index] for index in range(min(len(self._outgoing), _MAX_PARTS))]

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
