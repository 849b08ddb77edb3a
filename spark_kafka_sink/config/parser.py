"""Turns the text of one option into its typed value, or says what is allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.credentials import is_redacted
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.quantity import unit_of
from spark_kafka_sink.common.shown import NOT_SHOWN, shown
from spark_kafka_sink.common.similarity import did_you_mean
from spark_kafka_sink.config.addresses import parse_addresses
from spark_kafka_sink.config.option import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.config.option import Option

Parsed = str | int | float | bool | tuple[str, ...] | None

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_FRACTION = re.compile(r"\+?[0-9]{0,15}\.[0-9]{1,15}", re.ASCII)
_LOGIN = ("security.", "sasl.")
"""Options beside those of passwords: what is no typo of a choice may be meant for another."""


def parse_value(option: Option, given: str, key: str) -> Parsed:
    """Read one value; `key` is the name the user gave it by.

    Raises:
        ConfigError: the text is not one of the values allowed.
    """
    text = str(given).strip()
    if option.choices:
        return _choice(option, text, key)
    if option.is_number:
        return _number(option, text, key)
    if option.kind is Kind.BOOLEAN:
        return _flag(option, text, key)
    return parse_addresses(text, key) if option.kind is Kind.LIST else text


def parse_values(table: Iterable[Option], given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Read all options of a table; those not given have their defaults.

    Raises:
        ConfigError: a value is not one of those allowed.
    """
    return {
        option.name: parse_value(option, given[option.name], f"{prefix}{option.name}")
        if option.name in given
        else option.default
        for option in table
    }


def is_number(text: str) -> bool:
    """Whether a text is a whole number, as Java reads one."""
    return _NUMBER.fullmatch(text) is not None


def wrong_value(option: Option, text: str, key: str, hint: str | None = None) -> ConfigError:
    """The error for a value that is not allowed."""
    value = shown(text)
    if is_redacted("", text) or (hint is None and option.name.startswith(_LOGIN)):
        value, hint = NOT_SHOWN, None
    unit = unit_of(key) if option.is_number else None
    allowed = option.allowed if unit is None else f"{option.allowed}, in {unit.words}"
    return ConfigError(f"option {key} is {value}; allowed: {allowed}", hint=hint)


def _choice(option: Option, text: str, key: str) -> str:
    if text not in option.choices:
        hint = option.hints.get(text) or did_you_mean(text, option.choices)
        raise wrong_value(option, text, key, hint or option.hints.get(""))
    return text


def _number(option: Option, text: str, key: str) -> int | float:
    if is_number(text) and option.accepts(int(text)):
        return int(text)
    if option.fractional and _FRACTION.fullmatch(text) and option.accepts(float(text)):
        return float(text)
    unit = unit_of(key)
    meant = None if unit is None else unit.number(text)
    hint = None if unit is None or meant is None or not option.accepts(meant) else unit.hint(text)
    raise wrong_value(option, text, key, hint)


def _flag(option: Option, text: str, key: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise wrong_value(option, text, key)
    return text.lower() == "true"
