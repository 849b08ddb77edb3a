"""One fault: its effect, and the requests that it applies to. Matching is pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.versions import ApiKey


class Effect(StrEnum):
    """What happens; in parentheses what the fault's value is."""

    ERROR = "error"
    """The answer says an error (its code), and nothing is applied."""
    DELAY = "delay"
    """The request is handled so much later (ms)."""
    THROTTLE = "throttle"
    """The answer names a throttle time (ms)."""
    LOSE_REQUEST = "lose-request"
    """The request is never handled, and its connection says nothing any more."""
    LOSE_RESPONSE = "lose-response"
    """The request is applied, and its connection says nothing any more."""
    CUT = "cut"
    """The request is applied, and the connection ends behind the answer's first bytes (bytes)."""
    CLOSE = "close"
    """The connection ends, and nothing is applied."""
    MOVE = "move"
    """The leader moves before the request is handled (node; 0 is the next one that lives)."""
    FORGET = "forget-producers"
    """The partition forgets its idempotent producers before the request is handled."""
    STOP = "stop"
    """A node stops before the request is handled (node)."""
    START = "start"
    """A stopped or paused node comes back before the request is handled (node)."""
    PAUSE = "pause"
    """A node hangs before the request is handled (node)."""
    LAG = "lag"
    """All followers copy so much later from now on (ms)."""
    CLOCK = "clock"
    """The brokers' time of day jumps before the request is handled (ms, back if negative)."""


class RequestPartition(NamedTuple):
    """A partition that a request names; None stands for all of a topic, or for no topic at all."""

    topic: str | None
    partition: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """What a fault looks at of a request."""

    api: int
    node: int
    client_id: str
    partitions: tuple[RequestPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong, where and how often; None matches everything.

    Args:
        effect: what happens.
        value: see the effect.
        api: only requests of this API.
        topic: only requests that name the topic.
        partition: only requests that name the partition; an error is that partition's alone.
        node: only requests to the node.
        client: only requests of clients with this id.
        next: so many requests, None for all.
        after: so many requests that would match pass before the first.
        probability: the share of matching requests that trigger it.
        seed: of the random numbers behind the probability.

    Raises:
        ConfigError: a number is out of range.
    """

    effect: Effect
    value: int = 0
    api: ApiKey | None = None
    topic: str | None = None
    partition: int | None = None
    node: int | None = None
    client: str | None = None
    next: int | None = None
    after: int = 0
    probability: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ConfigError(
                f"a fault's probability is {self.probability}", hint="It lies above 0, up to 1"
            )
        if self.value < 0 and self.effect not in {Effect.CLOCK, Effect.ERROR}:
            raise ConfigError(
                f"{self.effect}={self.value}", hint="Only clock may jump back; others are positive"
            )

    def matches(self, request: RequestInfo) -> bool:
        """Whether a request may trigger it."""
        return (
            self.api in {None, request.api}
            and self.node in {None, request.node}
            and self.client in {None, request.client_id}
            and (self._is_anywhere or any(map(self.covers, request.partitions)))
        )

    def covers(self, named: RequestPartition) -> bool:
        """Whether it applies to a partition that a request names."""
        return self.topic in {None, named.topic} and (
            None in {self.partition, named.partition} or self.partition == named.partition
        )

    @property
    def _is_anywhere(self) -> bool:
        return self.topic is None and self.partition is None
