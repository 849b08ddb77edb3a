"""One client's connection: bytes in, one request at a time, bytes out. Without I/O of its own."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.net.frame_buffer import FrameBuffer
from spark_kafka_sink.broker.security.authenticator import MAX_RECEIVE_BYTES
from spark_kafka_sink.broker.security.server_security import ANONYMOUS
from spark_kafka_sink.protocol.frame import MAX_FRAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.security.authenticator import SaslServerAuthenticator

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
