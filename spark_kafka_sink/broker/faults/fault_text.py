"""The text form of a fault.

It starts with the name of an API, or ``*`` for all APIs. The name is followed by the effect and the
conditions, as words and key=value pairs separated by colons. Examples:

- `produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5`
- `fetch:topic=events:delay=200:probability=0.1:seed=7`
- `*:node=2:lose-response:next=1`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spark_kafka_sink.broker.faults.fault import Fault, FaultEffect
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
_WITHOUT_VALUE = {
    FaultEffect.LOSE_REQUEST,
    FaultEffect.LOSE_RESPONSE,
    FaultEffect.CLOSE,
    FaultEffect.FORGET,
}
_WITH_OPTIONAL_VALUE = {FaultEffect.MOVE, FaultEffect.CUT}


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
