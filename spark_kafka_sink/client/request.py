"""A request: as it is to be sent, on its way, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.protocol.versions import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request ready to be sent: its body as buffers, and what the sender keeps with it.

    `context` comes back with the response; `expects_response` is false for acks=0 alone. `reader`
    reads the frame of the response; None: `codec` does, into the protocol's own message.
    """

    api: ApiKey
    version: int
    body: list[Buffer] = field(repr=False)
    context: Any = None
    reader: Callable[[memoryview], Any] | None = field(default=None, repr=False)
    expects_response: bool = True


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """A request on its way; times in seconds of the monotonic clock.

    `ends_at` is its place in the stream of bytes; `written_at` is 0 until it is known that the
    socket has it all.
    """

    correlation_id: int
    request: Request
    sent_at: float
    ends_at: int = 0
    written_at: float = 0.0

    def completion(
        self,
        node: Node,
        now: float,
        *,
        response: Any | None = None,
        failure: str | None = None,
        written: bool = True,
    ) -> Completion:
        """What became of the request."""
        return Completion(
            node=node,
            request=self.request,
            response=response,
            failure=failure,
            latency=now - self.sent_at,
            correlation_id=self.correlation_id,
            written=written,
        )


class Completion(NamedTuple):
    """A request that has its answer, or never will: then `failure` says why.

    Both `response` and `failure` are None for a request without a response that was written.
    `latency` is in seconds from sending to answer. `written`: the socket took all of the request.

    A request that was not written whole has had no effect: a broker acts on a frame when it has
    as many bytes as its length says (``NetworkReceive.complete``), and drops one that a
    disconnect cuts short. What is missing never follows, as the connection is closed here, and
    what the socket took says nothing of the bytes it did not take.
    """

    node: Node
    request: Request
    response: Any | None
    failure: str | None
    latency: float
    correlation_id: int = 0
    written: bool = True

    @property
    def throttle_ms(self) -> int:
        """Milliseconds for which the broker throttles this client, as its response says."""
        pause = getattr(self.response, "throttle_time", None)
        if isinstance(pause, timedelta):
            return round(pause / timedelta(milliseconds=1))
        return int(getattr(self.response, "throttle_ms", 0))  # of Produce
