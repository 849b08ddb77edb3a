"""One connection's protocol, without I/O: what to send, what the received bytes mean.

    DISCONNECTED -> [RESOLVING] -> CONNECTING -> NEGOTIATING (ApiVersions) -> READY -> DISCONNECTED

Responses arrive in the order of the requests. Source: ``NetworkClient``, KIP-35, KIP-511.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.common.version import __version__
from spark_kafka_sink.protocol.codec import encode
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.protocol.frame import FrameReader
from spark_kafka_sink.protocol.messages import (
    read_correlation_id,
    read_response,
    request_header,
)
from spark_kafka_sink.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    VersionRange,
    negotiate,
    request_type,
    response_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

_SOFTWARE = ("spark-kafka-sink", __version__)


class State(Enum):
    """Where a connection stands."""

    DISCONNECTED = auto()
    RESOLVING = auto()
    CONNECTING = auto()
    NEGOTIATING = auto()
    READY = auto()


_NEXT: dict[State, frozenset[State]] = {
    State.DISCONNECTED: frozenset({State.RESOLVING, State.CONNECTING}),
    State.RESOLVING: frozenset({State.CONNECTING, State.DISCONNECTED}),
    State.CONNECTING: frozenset({State.NEGOTIATING, State.DISCONNECTED}),
    State.NEGOTIATING: frozenset({State.READY, State.DISCONNECTED}),
    State.READY: frozenset({State.DISCONNECTED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request ready to be sent: its body as buffers, and what the sender keeps with it.

    `context` comes back with the response; `expects_response` is false for acks=0 alone.
    """

    api: ApiKey
    version: int
    body: list[Buffer]
    context: Any = None
    expects_response: bool = True


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A request on its way; times in seconds of the monotonic clock.

    `ends_at` is its place in the stream of bytes; `written_at` is 0 until the socket has it all.
    """

    correlation_id: int
    request: Request
    sent_at: float
    ends_at: int = 0
    written_at: float = 0.0


class Connection:
    """The state of one connection; the caller moves the bytes and tells the time."""

    def __init__(self, client_id: str) -> None:
        self.state = State.DISCONNECTED
        self.versions: dict[int, VersionRange] = {}
        self.out: deque[memoryview] = deque()
        self.in_flight: deque[InFlightRequest] = deque()
        self.silent: deque[InFlightRequest] = deque()
        """Requests that get no response (acks=0) and are not yet written whole."""
        self._unwritten: deque[InFlightRequest] = deque()
        self._queued = self._written = 0
        self._client_id = client_id
        self._frames = FrameReader()
        self._correlation_id = 0

    def move(self, state: State) -> None:
        """Change state; anything not in the table is a bug."""
        if state not in _NEXT[self.state]:
            raise AssertionError(f"connection cannot go from {self.state} to {state}")
        self.state = state

    def connected(self, now: float) -> None:
        """The socket is open: ask for the versions first."""
        self.move(State.NEGOTIATING)
        self._ask_versions(CLIENT_VERSIONS[ApiKey.API_VERSIONS].highest, now)

    def version(self, api: ApiKey, cap: int | None = None) -> int:
        """The version to use for an API here; ProtocolError if there is none in common."""
        return negotiate(api, CLIENT_VERSIONS[api], self.versions.get(api), cap)

    def enqueue(self, request: Request, now: float) -> InFlightRequest:
        """Put a request behind those that wait to be written."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        message = request_type(request.api, request.version)
        header = request_header(message, self._correlation_id, self._client_id)
        parts = [view for part in request.body if (view := memoryview(part)).nbytes]
        size = len(header) + sum([part.nbytes for part in parts])
        self.out.append(memoryview(size.to_bytes(4, "big") + header))
        self.out.extend(parts)
        queue = self.in_flight if request.expects_response else self.silent
        self._queued += 4 + size
        flight = InFlightRequest(self._correlation_id, request, now, self._queued)
        queue.append(flight)
        self._unwritten.append(flight)
        return flight

    def wrote(self, count: int) -> None:
        """Drop `count` bytes from the front of what is to be written."""
        self._written += count
        while count:
            first = self.out.popleft()
            if first.nbytes > count:
                self.out.appendleft(first[count:])
                return
            count -= first.nbytes

    @property
    def unwritten(self) -> int:
        """Requests that the socket has not taken whole yet."""
        return len(self._unwritten)

    def mark_written(self, now: float) -> None:
        """Let the requests that the socket has taken whole know when that was."""
        while self._unwritten and self._unwritten[0].ends_at <= self._written:
            self._unwritten.popleft().written_at = now

    def received(self, data: bytes, now: float) -> Iterator[tuple[InFlightRequest, Any]]:
        """Take bytes; yield the requests they answer with their responses, decoded.

        Raises:
            ProtocolError: the bytes are not Kafka's, or answer something that was not asked.
        """
        for frame in self._frames.feed(data):
            if not self.in_flight:
                raise ProtocolError("the broker sent a response that nothing was asked for")
            asked = self.in_flight[0]  # taken once its answer is read: it must not get lost
            if read_correlation_id(frame) != asked.correlation_id:
                raise ProtocolError("the broker answered a request out of turn")
            if asked.request.api is ApiKey.API_VERSIONS and self.state is State.NEGOTIATING:
                self.in_flight.popleft()
                self._learn_versions(frame, asked, now)
                continue
            kind = response_type(asked.request.api, asked.request.version)
            response = read_response(kind, frame)[1]
            self.in_flight.popleft()
            yield asked, response

    def has_written(self, flight: InFlightRequest) -> bool:
        """Whether the socket has taken every byte of a request."""
        return flight.ends_at <= self._written

    def written_silently(self) -> list[InFlightRequest]:
        """Take the acks=0 requests that are fully written; they get no response."""
        done = []
        while self.silent and self.has_written(self.silent[0]):
            done.append(self.silent.popleft())
        return done

    def oldest_sent(self) -> float | None:
        """When the request was sent that has waited longest for its response, or to be written."""
        waiting = [queue[0].sent_at for queue in (self.in_flight, self.silent) if queue]
        return min(waiting, default=None)

    def _ask_versions(self, version: int, now: float) -> None:
        kind = request_type(ApiKey.API_VERSIONS, version)
        name, release = _SOFTWARE
        named = {"client_software_name": name, "client_software_version": release}
        body: list[Buffer] = [encode(kind(**named) if version >= 3 else kind())]
        self.enqueue(Request(api=ApiKey.API_VERSIONS, version=version, body=body), now)

    def _learn_versions(self, frame: memoryview, asked: InFlightRequest, now: float) -> None:
        """Take the broker's ranges, or ask again in a lower version.

        With UNSUPPORTED_VERSION they come in the form of version 0.
        """
        asked_version = asked.request.version
        if int.from_bytes(frame[4:6], "big") == ErrorCode.unsupported_version and asked_version:
            _, refusal = read_response(response_type(ApiKey.API_VERSIONS, 0), frame)
            theirs = {int(api.api_key): int(api.max_version) for api in refusal.api_keys}
            lower = max(0, min(theirs.get(ApiKey.API_VERSIONS, 0), asked_version - 1))
            self._ask_versions(lower, now)
            return
        _, answer = read_response(response_type(ApiKey.API_VERSIONS, asked_version), frame)
        if code := int(answer.error_code):
            raise ProtocolError(f"the broker refused ApiVersions with {error_name(code)}")
        for api in answer.api_keys:
            self.versions[int(api.api_key)] = VersionRange(
                int(api.min_version), int(api.max_version)
            )
        # A node without the Metadata API is no broker, for example a KRaft controller.
        self.version(ApiKey.METADATA)
        self.move(State.READY)
