"""Parse the value of an option. The errors for values that are not allowed."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import is_redacted, safe_repr
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.common.text import TOPIC_NAMES, is_topic_name
from spark_kafka_sink.config.addresses import parse_addresses
from spark_kafka_sink.config.option_definition import Option, OptionType
from spark_kafka_sink.config.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Parsed = str | int | float | bool | tuple[str, ...] | None
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_FRACTION = re.compile(r"\+?[0-9]{0,15}\.[0-9]{1,15}", re.ASCII)
_NOT_SHOWN = "not what it should be"
_BOOLEANS = {"true": True, "false": False}
_LIBRDKAFKA_BOOLEANS = _BOOLEANS | {"1": True, "t": True, "0": False, "f": False}
_LOGIN_PREFIXES = ("security.", "sasl.")
"""Prefixes of login options. A wrong value that is not a likely typo might be a secret meant for a
different option, so it is not shown.
"""


def parse_value(option: Option, value: str, key: str) -> Parsed:
    """Parse one value; `key` is the option's name as the user wrote it.

    Raises:
        ConfigError: the value is not allowed.
    """
    text = str(value).strip()
    if option.choices:
        return _parse_choice(option, text, key)
    if option.is_number:
        return _parse_number(option, text, key)
    if option.kind is OptionType.DOUBLE:
        return _parse_double(option, text, key)
    if option.kind is OptionType.BOOLEAN:
        return _parse_boolean(option, text, key)
    return parse_addresses(text, key) if option.kind is OptionType.LIST else text


def parse_values(
    table: Iterable[Option], user_options: Mapping[str, str], prefix: str
) -> dict[str, Any]:
    """Parse all options of a table. Options that are not set get their default values.

    Raises:
        ConfigError: a value is not allowed.
    """
    return {
        option.name: parse_value(option, user_options[option.name], f"{prefix}{option.name}")
        if option.name in user_options
        else option.default
        for option in table
    }


def parse_url(text: str) -> SplitResult:
    """Return the parts of a URL. All are empty if Python rejects it, such as https://[host]."""
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


def is_number(text: str) -> bool:
    """Return True if the text is a whole number in Java's syntax."""
    return _NUMBER.fullmatch(text) is not None


def _parse_choice(option: Option, text: str, key: str) -> str:
    fold = str.lower if option.ignores_case or not option.is_java_option else str
    match = next((choice for choice in option.choices if fold(choice) == fold(text)), None)
    if match is None:
        hint = option.hints.get(text) or did_you_mean(text, option.choices)
        raise wrong_value_error(option, text, key, hint or option.hints.get(""))
    return match


def _parse_number(option: Option, text: str, key: str) -> int | float:
    if is_number(text) and option.accepts(int(text)):
        return int(text)
    if option.fractional and _FRACTION.fullmatch(text) and option.accepts(float(text)):
        return float(text)
    unit = unit_of(key)
    converted = None if unit is None else unit.number(text)
    hint = (
        None
        if unit is None or converted is None or not option.accepts(converted)
        else unit.hint(text)
    )
    raise wrong_value_error(option, text, key, hint)


def _parse_double(option: Option, text: str, key: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not option.accepts(number):
        raise not_allowed_error(key, text, option.allowed)
    return number


def _parse_boolean(option: Option, text: str, key: str) -> bool:
    booleans = _BOOLEANS if option.is_java_option else _LIBRDKAFKA_BOOLEANS
    if text.lower() not in booleans:
        raise wrong_value_error(option, text, key)
    return booleans[text.lower()]


def wrong_value_error(option: Option, text: str, key: str, hint: str | None = None) -> ConfigError:
    """Return the error for a value that is not allowed."""
    value = safe_repr(text)
    if is_redacted("", text) or (hint is None and option.name.startswith(_LOGIN_PREFIXES)):
        value, hint = _NOT_SHOWN, None
    unit = unit_of(key) if option.is_number else None
    allowed = option.allowed if unit is None else f"{option.allowed}, in {unit.words}"
    return ConfigError(f"option {key} is {value}; allowed: {allowed}", hint=hint)


def not_allowed_error(key: str, text: str, allowed: str, hint: str | None = None) -> ConfigError:
    """Return the error for a text that is not allowed and is not secret."""
    return ConfigError(f"option {key} is {safe_repr(text)}; allowed: {allowed}", hint=hint)


def conflict_error(first: str, second: str, problem: str = "are both set") -> ConfigError:
    """Return the error for two options that cannot be combined."""
    return ConfigError(f"options {first} and {second} {problem}", hint="Remove one of them.")


def synonym_error(first: str, second: str) -> ConfigError:
    """Return the error for two names of one option that have different values."""
    return conflict_error(first, second, "are synonyms but have different values")


def check_topic(option: str, topic: str) -> None:
    """Raise if the value of an option is not a valid topic name (Kafka's Topic.validate).

    Raises:
        ConfigError: the name is empty, too long, "." or "..", or has invalid characters.
    """
    if not is_topic_name(topic):
        raise ConfigError(
            f"option {option} is {safe_repr(topic)}, which is not a valid topic name",
            hint=TOPIC_NAMES,
        )
