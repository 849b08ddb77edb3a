"""The faults that users inject, and their text form.

The text form of a fault starts with the name of an API, or ``*`` for all APIs. The name is followed
by the effect and the conditions, as words and key=value pairs separated by colons. Examples:

- `produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5`
- `fetch:topic=events:delay=200:probability=0.1:seed=7`
- `*:node=2:lose-response:next=1`

`Faults` is thread-safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


T = TypeVar("T")
_EXAMPLE = "produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5"
_CONDITIONS: Mapping[str, Callable[[str], Any]] = {
    "topic": str,
    "partition": int,
    "node": int,
    "client": str,
    "next": int,
    "after": int,
    "probability": float,
    "seed": int,
}


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


_WITHOUT_VALUE = {
    FaultEffect.LOSE_REQUEST,
    FaultEffect.LOSE_RESPONSE,
    FaultEffect.CLOSE,
    FaultEffect.FORGET,
}
_WITH_OPTIONAL_VALUE = {FaultEffect.MOVE, FaultEffect.CUT}


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
                hint="Only clock accepts negative values.",
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


def parse_fault(text: str) -> Fault:
    """Parse the text form of a fault.

    Raises:
        ConfigError: the text is not a valid fault.
    """
    name, *words = text.split(":")
    fields: dict[str, Any] = {"api": _parse_api(name, text)}
    for word in words:
        key, _, value = word.partition("=")
        fields |= (
            _parse_condition(key, value, text)
            if key in _CONDITIONS
            else _parse_effect(key, value, text)
        )
    if "effect" not in fields:
        raise _invalid_fault(
            text, f"it specifies no effect; the effects are: {', '.join(FaultEffect)}"
        )
    return Fault(**fields)


def _parse_value(parse: Callable[[str], T], value: str, text: str, problem: str) -> T:
    """Return `parse(value)`. If it fails, the fault is invalid because of `problem`."""
    try:
        return parse(value)
    except (KeyError, ValueError):
        raise _invalid_fault(text, problem) from None


def _parse_api(name: str, text: str) -> ApiKey | None:
    if name == "*":
        return None
    problem = f"{name} is neither an API, such as init_producer_id, nor *"
    return _parse_value(lambda name: ApiKey[name.upper().replace("-", "_")], name, text, problem)


def _parse_condition(key: str, value: str, text: str) -> dict[str, Any]:
    return {key: _parse_value(_CONDITIONS[key], value, text, f"{key}={value} is not a number")}


def _parse_effect(key: str, value: str, text: str) -> dict[str, Any]:
    known = ", ".join([*_CONDITIONS, *FaultEffect])
    effect = _parse_value(FaultEffect, key, text, f"{key} is not one of {known}")
    if effect in _WITHOUT_VALUE or (effect in _WITH_OPTIONAL_VALUE and not value):
        return {"effect": effect}
    if effect is FaultEffect.ERROR:
        number = _parse_value(_code_of, value, text, f"{value} is not a Kafka error name")
    else:
        number = _parse_value(int, value, text, f"{key} requires a number, not '{value}'")
    return {"effect": effect, "value": number}


def _code_of(value: str) -> int:
    if value.lstrip("-").isdecimal():
        return int(value)
    return ErrorCode[value.lower()].value


def _invalid_fault(text: str, reason: str) -> ConfigError:
    return ConfigError(f"the fault '{text}' is invalid: {reason}", hint=f"Example: {_EXAMPLE}")


class ActiveFault:
    """An armed fault. `hits` is the number of requests that have triggered it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.hits = 0
        self._matched = 0
        self._rng = Random(fault.seed)

    @property
    def is_spent(self) -> bool:
        """True if the fault has reached its maximum number of triggers."""
        return self.fault.next is not None and self.hits >= self.fault.next

    def trigger(self, request: RequestProperties) -> bool:
        """Return True if a request triggers the fault. Every matching request is counted."""
        if self.is_spent or not self.fault.matches(request):
            return False
        self._matched += 1
        if self._matched <= self.fault.after:
            return False
        if self.fault.probability < 1 and self._rng.random() >= self.fault.probability:
            return False
        self.hits += 1
        return True


class Faults:
    """All faults of a cluster. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        # Guarded by `_lock`:
        self._armed: list[ActiveFault] = []

    def add(self, fault: Fault | str) -> ActiveFault:
        """Arm a fault, given as a `Fault` or in its text form.

        Raises:
            ConfigError: the text is not a valid fault.
        """
        active = ActiveFault(parse_fault(fault) if isinstance(fault, str) else fault)
        with self._lock:
            self._armed.append(active)
        return active

    def remove(self, active: ActiveFault) -> None:
        """Disarm a fault. Has no effect if the fault is not armed."""
        with self._lock:
            self._armed = [armed for armed in self._armed if armed is not active]

    def clear(self) -> None:
        """Disarm all faults."""
        with self._lock:
            self._armed.clear()

    @property
    def armed(self) -> list[ActiveFault]:
        """The faults that can still be triggered, in the order in which they were added."""
        with self._lock:
            return [armed for armed in self._armed if not armed.is_spent]

    def __bool__(self) -> bool:
        # Without the lock, because it is called for every request: one read of a list is atomic.
        return bool(self._armed)

    def triggered_by(self, request: RequestProperties) -> list[Fault]:
        """Return the faults that a request triggers. Every matching fault counts the request."""
        with self._lock:
            triggered = [armed.fault for armed in self._armed if armed.trigger(request)]
            self._armed = [armed for armed in self._armed if not armed.is_spent]
        return triggered
