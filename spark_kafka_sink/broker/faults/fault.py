"""The faults that users inject."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.versions import ApiKey


class FaultEffect(StrEnum):
    """The effect of a fault. The parentheses describe the meaning of the fault's value."""

    ERROR = "error"
    """The request is not applied, and the response contains an error (its code)."""
    DELAY = "delay"
    """The request is handled after a delay (ms)."""
    THROTTLE = "throttle"
    """The response contains a throttle time (ms)."""
    LOSE_REQUEST = "lose-request"
    """The request is not handled, and its connection no longer sends responses."""
    LOSE_RESPONSE = "lose-response"
    """The request is applied, but its connection no longer sends responses."""
    CUT = "cut"
    """The request is applied, but only part of the response is sent (number of bytes)."""
    CLOSE = "close"
    """The request is not applied, and the connection closes."""
    MOVE = "move"
    """The partition gets a new leader before the request is handled (node; 0 is the next node)."""
    FORGET = "forget-producers"
    """The partition drops its producer state before the request is handled."""
    STOP = "stop"
    """A node stops before the request is handled (node)."""
    START = "start"
    """A stopped or paused node starts before the request is handled (node)."""
    PAUSE = "pause"
    """A node hangs before the request is handled (node)."""
    LAG = "lag"
    """The replication delay of all followers is set (ms)."""
    CLOCK = "clock"
    """The brokers' wall time changes before the request is handled (ms, can be negative)."""


class RequestPartition(NamedTuple):
    """A partition or topic in a request."""

    topic: str | None
    """None if the topic is unknown."""
    partition: int | None
    """None for a whole topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestProperties:
    """The properties of a request that are compared with the conditions of faults."""

    api: int
    node: int
    client_id: str
    partitions: tuple[RequestPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An effect, and the conditions under which a request triggers it.

    A condition of None matches all requests.

    Raises:
        ConfigError: a number is out of range.
    """

    effect: FaultEffect
    value: int = 0
    """The parameter of the effect, as described in `FaultEffect`."""
    api: ApiKey | None = None
    """Match only requests of this API."""
    topic: str | None = None
    """Match only requests that contain this topic."""
    partition: int | None = None
    """Match only requests that contain this partition. An error is returned only for this
    partition.
    """
    node: int | None = None
    """Match only requests to this node."""
    client: str | None = None
    """Match only requests of clients with this client id."""
    next: int | None = None
    """Maximum number of requests that trigger the fault; None for no limit."""
    after: int = 0
    """Number of matching requests to skip first."""
    probability: float = 1.0
    """Probability that a matching request triggers the fault."""
    seed: int = 0
    """Seed of the random number generator for `probability`."""

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ConfigError(
                f"the probability of a fault is {self.probability}",
                hint="It must be above 0 and at most 1.",
            )
        if self.value < 0 and self.effect not in {FaultEffect.CLOCK, FaultEffect.ERROR}:
            raise ConfigError(
                f"the fault {self.effect}={self.value} has a negative value",
                hint="Only clock and error accept negative values.",
            )

    def matches(self, request: RequestProperties) -> bool:
        """Return True if a request matches the conditions of the fault."""
        return (
            _is_met(self.api, request.api)
            and _is_met(self.node, request.node)
            and _is_met(self.client, request.client_id)
            and (self._is_anywhere or any(map(self.covers, request.partitions)))
        )

    def covers(self, named: RequestPartition) -> bool:
        """Return True if the fault applies to a partition of a request."""
        is_covered = named.partition is None or _is_met(self.partition, named.partition)
        return is_covered and _is_met(self.topic, named.topic)

    @property
    def _is_anywhere(self) -> bool:
        return self.topic is None and self.partition is None


def _is_met(condition: object, value: object) -> bool:
    """Return True if a condition is not set, or equal to the value."""
    return condition is None or condition == value
