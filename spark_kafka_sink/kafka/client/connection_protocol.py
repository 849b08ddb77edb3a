"""The protocol state of one connection, without I/O.

`ConnectionProtocol` encodes requests, matches responses to them, negotiates API versions and logs
in. `channel.channel_state` defines the states and their transitions. A broker responds to the
requests of a connection in order. Source: ``NetworkClient``, KIP-35, KIP-511.
"""

from __future__ import annotations

import time
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.common.version import __version__
from spark_kafka_sink.kafka.client.channel.authenticator import Authenticator, SaslLogin, Step
from spark_kafka_sink.kafka.client.channel.channel_state import NEXT_STATES, ChannelState
from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
from spark_kafka_sink.kafka.client.request import InFlightRequest, Request
from spark_kafka_sink.kafka.protocol import messages
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.frame import MAX_FRAME, FrameReader
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    request_type,
    response_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random


_SOFTWARE = {"client_software_name": "spark-kafka-sink", "client_software_version": __version__}
MAX_HANDSHAKE_FRAME = 512 * 1024
"""Maximum frame size in bytes until the handshake shows that the peer is a Kafka broker."""
_MIN_SESSION_S = 0.1
"""Minimum session lifetime in seconds, which limits how often a broker can require a login."""
_REAUTHENTICATE_AT = (0.85, 0.95)
"""The login is renewed after a random fraction of the session's lifetime, in this range."""


class UnreadableError(ProtocolError):
    """A response cannot be read; the message names the API."""


class CorrelationError(ProtocolError):
    """A response does not match the oldest request in flight."""


class ConnectionProtocol:
    """The state of one connection. The caller does the I/O and passes the current time.

    Args:
        client_id: the client id in request headers.
        login: the SASL login, or None without SASL.
        random: source of jitter for login renewals; None to use the middle of the range.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        client_id: str,
        login: SaslLogin | None = None,
        random: Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.state = ChannelState.DISCONNECTED
        self.state_since = clock()
        """Time of the latest change of `state`, in seconds."""
        self.login_due = inf
        """Time at which the login must be renewed, in seconds of the caller's clock."""
        self.has_responded = False
        """True after the broker has responded to a request that followed the handshake."""
        self.versions = NodeApiVersions()
        self.send_queue: deque[memoryview] = deque()
        self.in_flight: deque[InFlightRequest] = deque()
        self.fire_and_forget: deque[InFlightRequest] = deque()
        """Requests that expect no response (acks=0) and are not yet completely written."""
        self._responses = 0
        """Responses received since the last call of `take_responses`."""
        self.unwritten: deque[InFlightRequest] = deque()
        """Requests that are not known to be completely written, in order."""
        self._queued = self._written = 0
        self.client_id = client_id
        self._login = login
        self._random = random
        self._authenticator: Authenticator | None = None
        """The login in progress, or None."""
        self._frames = FrameReader(MAX_HANDSHAKE_FRAME)
        self._correlation_id = 0

    def change_state(self, state: ChannelState) -> None:
        """Change the state.

        Raises:
            AssertionError: `NEXT_STATES` does not allow the transition, which is a bug.
        """
        if state not in NEXT_STATES[self.state]:
            raise AssertionError(f"connection cannot change from {self.state} to {state}")
        self.state, self.state_since = state, self._clock()

    def start_handshake(self, now: float) -> None:
        """Start the handshake on an open socket: send ApiVersions."""
        self.change_state(ChannelState.NEGOTIATING)
        self._request_versions(CLIENT_VERSIONS[ApiKey.API_VERSIONS].highest, now)

    def renew_login(self) -> None:
        """Stop sending requests, and log in again when no requests are in flight (KIP-368)."""
        self.change_state(ChannelState.DRAINING)
        self.login_due = inf

    def maybe_log_in(self) -> bool:
        """Start the new login if the connection is draining and no requests are in flight.

        Requests that expect no response are complete when the socket has accepted them.

        Returns:
            True if the login was started.
        """
        if self.state is not ChannelState.DRAINING or self.in_flight or self.send_queue:
            return False
        self._log_in()
        return True

    def take_step(self) -> Step | None:
        """Return the login's next step if it was not returned before, or None. Steps can block."""
        return None if self._authenticator is None else self._authenticator.take_step()

    def resume_login(self, message: bytes | None, now: float) -> None:
        """Continue the login with the result of a step."""
        assert self._authenticator is not None
        request = self._authenticator.resume(message)
        if request is not None:
            self.enqueue(request, now)
            return
        if lifetime := self._authenticator.lifetime:
            lowest, highest = _REAUTHENTICATE_AT
            jitter = self._random.random() if self._random else 0.5
            lifetime = max(lifetime, _MIN_SESSION_S)
            self.login_due = now + lifetime * (lowest + (highest - lowest) * jitter)
        self._authenticator = None
        self._become_ready()

    def enqueue(self, request: Request, now: float) -> InFlightRequest:
        """Append a request to the queue of requests to write."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        message = request_type(request.api, request.version)
        header = messages.request_header(message, self._correlation_id, self.client_id)
        buffers = [view for part in request.body if (view := memoryview(part)).nbytes]
        size = len(header) + sum(buffer.nbytes for buffer in buffers)
        self.send_queue.append(memoryview(size.to_bytes(4, "big") + header))
        self.send_queue.extend(buffers)
        queue = self.in_flight if request.expects_response else self.fire_and_forget
        self._queued += 4 + size
        sent_request = InFlightRequest(self._correlation_id, request, now, self._queued)
        queue.append(sent_request)
        self.unwritten.append(sent_request)
        return sent_request

    def record_written(self, count: int) -> None:
        """Remove `count` written bytes from the front of `send_queue`."""
        self._written += count
        while count:
            first = self.send_queue.popleft()
            if first.nbytes > count:
                self.send_queue.appendleft(first[count:])
                return
            count -= first.nbytes

    def take_responses(self) -> int:
        """Return and reset the number of responses received since the last call."""
        taken, self._responses = self._responses, 0
        return taken

    def take_written(self) -> list[InFlightRequest]:
        """Return the requests that were completely written since the last call."""
        written = []
        while self.unwritten and self.has_written(self.unwritten[0]):
            written.append(self.unwritten.popleft())
        return written

    def receive_data(self, data: bytes, now: float) -> Iterator[tuple[InFlightRequest, Any]]:
        """Process received bytes; yield each request with its decoded response.

        Raises:
            ProtocolError: the bytes are invalid, or a response matches no request.
        """
        for frame in self._frames.feed(data):
            if not self.in_flight:
                raise CorrelationError("the broker sent a response without a request")
            sent = self.in_flight[0]  # The request is removed only after its response was read.
            if messages.read_correlation_id(frame) != sent.correlation_id:
                raise CorrelationError("the broker's responses are out of order")
            self._responses += 1
            if self.state is ChannelState.NEGOTIATING:
                self.in_flight.popleft()
                self._learn_versions(frame, sent, now)
                continue
            response = _decode_response(sent.request, frame)
            self.in_flight.popleft()
            if self._authenticator is not None:
                self._continue_login(self._authenticator, response, now)
                continue
            self.has_responded = True
            yield sent, response

    def has_written(self, sent_request: InFlightRequest) -> bool:
        """Return True if the socket has accepted every byte of a request."""
        return sent_request.ends_at <= self._written

    def take_fire_and_forget(self) -> list[InFlightRequest]:
        """Remove and return the acks=0 requests that are completely written."""
        done = []
        while self.fire_and_forget and self.has_written(self.fire_and_forget[0]):
            done.append(self.fire_and_forget.popleft())
        return done

    def oldest_request_sent_at(self) -> float | None:
        """Return the send time of the oldest unanswered or unwritten request, or None."""
        if not self.fire_and_forget:
            return self.in_flight[0].sent_at if self.in_flight else None
        oldest = self.fire_and_forget[0].sent_at
        return min(oldest, self.in_flight[0].sent_at) if self.in_flight else oldest

    def _request_versions(self, version: int, now: float) -> None:
        self.enqueue(Request.of(ApiKey.API_VERSIONS, version, _SOFTWARE), now)

    def _learn_versions(self, frame: memoryview, sent: InFlightRequest, now: float) -> None:
        """Store the broker's version ranges, or retry ApiVersions with a lower version.

        A response with UNSUPPORTED_VERSION has the format of version 0.
        """
        version = sent.request.version
        if int.from_bytes(frame[4:6], "big") == ErrorCode.unsupported_version and version:
            self._request_versions(_lower_version(frame, version), now)
            return
        _, response = messages.read_response(response_type(ApiKey.API_VERSIONS, version), frame)
        if code := int(response.error_code):
            raise ProtocolError(f"the broker rejected ApiVersions with {error_name(code)}")
        self.versions = NodeApiVersions.of(response)
        # A node without the Metadata API is not a broker, but for example a KRaft controller.
        self.versions.latest_usable(ApiKey.METADATA)
        if self._login is None:
            self._become_ready()
        else:
            self._log_in()

    def _log_in(self) -> None:
        assert self._login is not None
        self.change_state(ChannelState.SASL_HANDSHAKE)
        self._authenticator = Authenticator(self._login, self.versions.ranges)

    def _continue_login(self, authenticator: Authenticator, response: Any, now: float) -> None:
        """Process a response of the login."""
        if self.state is ChannelState.SASL_HANDSHAKE:
            request = authenticator.handle_handshake(response)
            self.change_state(ChannelState.AUTHENTICATING)
            self.enqueue(request, now)
        else:
            authenticator.handle_authenticate(response)

    def _become_ready(self) -> None:
        self._frames.set_limit(MAX_FRAME)
        self.change_state(ChannelState.READY)


def _lower_version(frame: memoryview, version: int) -> int:
    """Return the version of ApiVersions to ask for after UNSUPPORTED_VERSION.

    It is the broker's highest, or 0 if the response does not contain it (librdkafka's mock broker).
    """
    try:
        _, rejection = messages.read_response(response_type(ApiKey.API_VERSIONS, 0), frame)
    except ProtocolError:
        return 0
    supported = {int(api.api_key): int(api.max_version) for api in rejection.api_keys}
    return max(0, min(supported.get(ApiKey.API_VERSIONS, 0), version - 1))


def _decode_response(request: Request, frame: memoryview) -> Any:
    """Decode the response to a request.

    Raises:
        UnreadableError: the bytes are not a response to the request.
    """
    try:
        if request.reader is not None:
            return request.reader(frame)
        return messages.read_response(response_type(request.api, request.version), frame)[1]
    except ProtocolError as error:
        raise UnreadableError(f"cannot read the response to {request.api.name}: {error}") from error
