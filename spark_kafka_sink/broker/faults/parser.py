"""A fault as text: an API's name or `*`, then words and key=value, with colons between.

For example `produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5`, or
`fetch:topic=events:delay=200:probability=0.1:seed=7`, or `*:node=2:lose-response:next=1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.faults.fault import Effect, Fault
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXAMPLE = "produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:next=5"
_PLAIN = {Effect.LOSE_REQUEST, Effect.LOSE_RESPONSE, Effect.CLOSE, Effect.FORGET}
_OPTIONAL = {Effect.MOVE, Effect.CUT}
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


def parse_fault(text: str) -> Fault:
    """Read a fault.

    Raises:
        ConfigError: it is none.
    """
    name, *words = text.split(":")
    given: dict[str, Any] = {"api": _api(name, text)}
    for word in words:
        key, _, value = word.partition("=")
        given |= _condition(key, value, text) if key in _CONDITIONS else _effect(key, value, text)
    if "effect" not in given:
        raise _wrong(text, f"an effect is missing: {', '.join(Effect)}")
    return Fault(**given)


def _api(name: str, text: str) -> ApiKey | None:
    if name == "*":
        return None
    try:
        return ApiKey[name.upper().replace("-", "_")]
    except KeyError:
        raise _wrong(text, f"{name} is no API; one is init_producer_id, * is all of them") from None


def _condition(key: str, value: str, text: str) -> dict[str, Any]:
    try:
        return {key: _CONDITIONS[key](value)}
    except ValueError:
        raise _wrong(text, f"{key}={value} is not a number") from None


def _effect(key: str, value: str, text: str) -> dict[str, Any]:
    try:
        effect = Effect(key)
    except ValueError:
        known = [*_CONDITIONS, *Effect]
        raise _wrong(text, f"{key} is not one of {', '.join(known)}") from None
    if effect in _PLAIN or (effect in _OPTIONAL and not value):
        return {"effect": effect}
    if effect is Effect.ERROR:
        return {"effect": effect, "value": _code(value, text)}
    try:
        return {"effect": effect, "value": int(value)}
    except ValueError:
        raise _wrong(text, f"{key} needs a number, not '{value}'") from None


def _code(value: str, text: str) -> int:
    if value.lstrip("-").isdecimal():
        return int(value)
    try:
        return ErrorCode[value.lower()].value
    except KeyError:
        raise _wrong(text, f"{value} is not the name of a Kafka error") from None


def _wrong(text: str, what: str) -> ConfigError:
    return ConfigError(f"the fault '{text}' can't be read: {what}", hint=f"Write it as {EXAMPLE}")
