"""The connection to one broker, with its transport, protocol and attempts to connect.

Used only by the sender thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.diagnosis import CLOSED, Circumstances
from spark_kafka_sink.kafka.client.channel.transport import MAX_BUFFERS, Transport
from spark_kafka_sink.kafka.client.connection_attempts import ConnectionAttempts
from spark_kafka_sink.kafka.client.connection_protocol import ConnectionProtocol
from spark_kafka_sink.kafka.client.request import Completion, InFlightRequest, Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from spark_kafka_sink.config.security.security_config import SecurityConfig
    from spark_kafka_sink.kafka.client.channel.authenticator import SaslLogin, Step
    from spark_kafka_sink.kafka.client.channel.channel_builder import ChannelBuilder
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
    from spark_kafka_sink.kafka.client.request import Request


class Traffic(NamedTuple):
    """What was written and received since the last call of `BrokerConnection.take_traffic`."""

    bytes_out: int
    bytes_in: int
    responses: int
    requests: list[InFlightRequest]
    """The requests that have been written completely."""


@dataclass(slots=True)
class BrokerConnection:
    """The state of one broker. Times are in seconds of the monotonic clock.

    `login`, `random` and `clock` are passed to each new `ConnectionProtocol`.
    """

    node: Node
    client_id: str
    login: SaslLogin | None = None
    random: Random | None = None
    clock: Callable[[], float] = time.monotonic
    protocol: ConnectionProtocol = field(init=False)
    transport: Transport | None = None
    attempts: ConnectionAttempts = field(default_factory=ConnectionAttempts)
    last_used: float = 0.0
    throttled_until: float = 0.0
    """End of the throttling that the broker requested (KIP-219)."""
    bytes_out: int = 0
    """Bytes written since the last call of `take_traffic`."""
    bytes_in: int = 0
    """Bytes received since the last call of `take_traffic`."""
    wrote_at: float | None = None
    """Time of the connection's last write, or None before the first write."""
    read_at: float | None = None
    """Time of the connection's last read, or None before the first read."""
    registered_events: int = 0
    """The selector events registered for the transport; 0 if it is not registered."""

    def __post_init__(self) -> None:
        self.protocol = self._new_protocol()

    @property
    def state(self) -> ChannelState:
        """The state of the connection."""
        return self.protocol.state

    @property
    def is_ready(self) -> bool:
        """True if requests can be sent."""
        return self.state is ChannelState.READY

    @property
    def state_since(self) -> float:
        """The time of the latest change of `state`."""
        return self.protocol.state_since

    @property
    def in_flight(self) -> Sequence[InFlightRequest]:
        """The requests that wait for their responses, oldest first."""
        return self.protocol.in_flight

    @property
    def unwritten(self) -> Sequence[InFlightRequest]:
        """The requests that are not known to be completely written, in order."""
        return self.protocol.unwritten

    @property
    def incomplete_requests(self) -> int:
        """The number of requests in flight, including those that expect no response."""
        return len(self.protocol.in_flight) + len(self.protocol.fire_and_forget)

    @property
    def is_idle(self) -> bool:
        """True if connected, but no requests are in flight. Brokers can close such a connection."""
        return self.is_ready and not (self.incomplete_requests or self.is_writing)

    @property
    def is_writing(self) -> bool:
        """True if bytes of a request have not been written yet."""
        return bool(self.protocol.send_queue)

    @property
    def cipher(self) -> str:
        """TLS version and cipher suite of the connection, or "" without TLS."""
        return self.transport.cipher if self.transport is not None else ""

    @property
    def wants_write(self) -> bool:
        """True if the selector must wait until the socket is writable."""
        protocol, transport = self.protocol, self.transport
        if protocol.state is ChannelState.CONNECTING:
            return True
        if transport is None:
            return bool(protocol.send_queue)
        return transport.unsent or (bool(protocol.send_queue) and not transport.wants_read)

    @property
    def versions(self) -> NodeApiVersions:
        """The broker's API versions."""
        return self.protocol.versions

    @property
    def login_due(self) -> float:
        """The time at which the login must be renewed before the next request, or infinity."""
        return self.protocol.login_due

    def oldest_request_sent_at(self) -> float | None:
        """Return when the oldest request in flight was sent, or None if no request is in flight."""
        return self.protocol.oldest_request_sent_at()

    def circumstances(self, security: SecurityConfig, *, is_accepted: bool) -> Circumstances:
        """Return the progress of the connection, for the diagnosis of a failure."""
        protocol = self.protocol
        return Circumstances(
            broker=str(self.node),
            security=security,
            state=protocol.state,
            has_responded=protocol.has_responded,
            is_waiting=bool(protocol.in_flight),
            is_accepted=is_accepted,
        )

    def start_step(self, state: ChannelState, now: float, deadline: float) -> None:
        """Start a step of a connection attempt, which fails at the deadline."""
        self.protocol.change_state(state)
        self.last_used, self.attempts.deadline = now, deadline

    def renew_login(self, deadline: float) -> None:
        """Log in again by the deadline, when no requests are in flight."""
        self.protocol.renew_login()
        self.attempts.deadline = deadline

    def next_login_step(self, deadline: float) -> Step | None:
        """Return the login's next step, if any; if a login starts now, it has this deadline."""
        if self.protocol.maybe_log_in():
            self.attempts.deadline = deadline
        return self.protocol.take_step()

    def resume_login(self, message: bytes | None, now: float) -> None:
        """Continue the login with the result of a step; raise OSError if disconnected."""
        self.protocol.resume_login(message, now)
        self.flush()

    def throttle(self, until: float) -> None:
        """Send nothing until this time, as the broker has requested (KIP-219)."""
        self.throttled_until = max(self.throttled_until, until)

    def take_traffic(self, now: float) -> Traffic | None:
        """Return and reset the counts since the last call, or None if nothing was transferred."""
        if not (self.bytes_out or self.bytes_in):
            return None
        protocol = self.protocol
        traffic = Traffic(
            self.bytes_out, self.bytes_in, protocol.take_responses(), protocol.take_written()
        )
        if self.bytes_out:
            self.wrote_at = now
        if self.bytes_in:
            self.read_at = now
        self.bytes_out = self.bytes_in = 0
        return traffic

    def continue_connecting(self, channels: ChannelBuilder, now: float) -> None:
        """Continue a connection attempt: first the socket, then TLS, then ApiVersions.

        Raises:
            OSError: the connection was refused or lost, or its TLS handshake failed.
        """
        protocol, transport = self.protocol, self.transport
        if transport is None or not transport.finish_connect():
            return
        if protocol.state is ChannelState.CONNECTING and channels.uses_tls:
            protocol.change_state(ChannelState.TLS_HANDSHAKE)
            self.transport = channels.encrypted(transport, self.node.host)
            self.continue_connecting(channels, now)
            return
        protocol.start_handshake(now)
        self.flush()

    def set_client_id(self, client_id: str) -> None:
        """Set the client id for the headers of later requests."""
        self.client_id = self.protocol.client_id = client_id

    def send(self, request: Request, now: float) -> InFlightRequest:
        """Queue a request, and write what the socket accepts; raise OSError if disconnected."""
        sent = self.protocol.enqueue(request, now)
        self.last_used = now
        self.flush()
        return sent

    def flush(self) -> None:
        """Write until the socket is full or the queue is empty; raise OSError if disconnected."""
        protocol, transport = self.protocol, self.transport
        queue = protocol.send_queue
        while transport is not None and (queue or transport.unsent):
            buffers = [queue[i] for i in range(min(len(queue), MAX_BUFFERS))]
            written = transport.write(buffers)
            if not written:
                return
            protocol.record_written(written)
            self.bytes_out += written

    def receive(self, now: float) -> Iterator[tuple[InFlightRequest, Any]]:
        """Read received bytes; yield the completed requests, even if an error follows.

        Raises:
            OSError: the connection is lost.
            ProtocolError: the bytes are not valid in Kafka's protocol.
        """
        while self.transport is not None and (data := self.transport.read()) is not None:
            if not data:
                raise ConnectionResetError(CLOSED)
            self.bytes_in += len(data)
            yield from self.protocol.receive_data(data, now)
            self.last_used = now
        self.flush()

    def response_awaited_since(self) -> float | None:
        """Return when the oldest request's timeout starts, or None if no request is in flight.

        A broker does not read requests while it throttles the client. Therefore, the timeout starts
        after the throttling ends.
        """
        oldest = self.protocol.oldest_request_sent_at()
        return None if oldest is None else max(oldest, self.throttled_until)

    def deadlines(self, request_timeout: float) -> Iterator[float]:
        """Yield the times of timeouts and retries, including those in the past.

        Args:
            request_timeout: maximum time in seconds that a request waits for its response.
        """
        if deadline := self.attempts.deadline:
            yield deadline
        yield self.attempts.retry_at
        yield self.throttled_until
        if since := self.response_awaited_since():
            yield since + request_timeout

    def take_fire_and_forget(self) -> list[Completion]:
        """Complete and return the requests that expect no response and are completely written."""
        if not self.protocol.fire_and_forget:
            return []
        written = self.protocol.take_fire_and_forget()
        return [Completion(self.node, sent, latency=0.0) for sent in written]

    def lost_requests(self, reason: str, loss: Loss, now: float) -> list[Completion]:
        """Return the requests without a response, which are lost because the connection closes."""
        protocol = self.protocol
        oldest = protocol.in_flight[0] if protocol.in_flight else None
        # Handshake requests have no context, because no caller waits for them.
        return [
            Completion(
                self.node,
                sent,
                latency=now - sent.sent_at,
                failure=reason,
                is_written=protocol.has_written(sent),
                is_oldest=sent is oldest,
                loss=loss,
            )
            for sent in (*protocol.in_flight, *protocol.fire_and_forget)
            if sent.request.context is not None
        ]

    def reset(self) -> None:
        """Close the transport, and forget the connection's requests."""
        if self.transport is not None:
            self.transport.close()
        self.transport, self.registered_events, self.attempts.deadline = None, 0, 0.0
        self.wrote_at = self.read_at = None
        self.protocol = self._new_protocol()

    def _new_protocol(self) -> ConnectionProtocol:
        return ConnectionProtocol(self.client_id, self.login, self.random, self.clock)
