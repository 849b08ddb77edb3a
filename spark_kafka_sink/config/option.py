"""The definition of an option (name, type, default, allowed values), and its parser."""

from __future__ import annotations

import math
import re
from dataclasses import KW_ONLY, Field, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import is_redacted
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.common.text import NOT_SHOWN, TOPIC_NAMES, is_topic_name, shown
from spark_kafka_sink.config.addresses import parse_addresses
from spark_kafka_sink.config.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


Parsed = str | int | float | bool | tuple[str, ...] | None

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_FRACTION = re.compile(r"\+?[0-9]{0,15}\.[0-9]{1,15}", re.ASCII)
_LOGIN_PREFIXES = ("security.", "sasl.")
"""Prefixes of login options. A wrong value that is not a likely typo might be a secret meant for a
different option, so it is not shown.
"""
_ALLOWED_TEXTS = {
    "boolean": "true or false",
    "list": "host:port,host:port",
    "password": "text, env:NAME or file:PATH",
}
_OPTION = "option"
"""Key of a field's option in the field's metadata."""
_OWN_DEFAULT: Any = object()
PREFIX = "kafka."
"""Prefix of the producer's options."""
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
Value = str | int | float | bool | None


def parse_value(option: Option, value: str, key: str) -> Parsed:
    """Parse one value; `key` is the option's name as the user wrote it.

    Raises:
        ConfigError: the value is not allowed.
    """
    text = str(value).strip()
    if option.choices:
        return _choice(option, text, key)
    if option.is_number:
        return _number(option, text, key)
    if option.kind is OptionType.DOUBLE:
        return _double(option, text, key)
    if option.kind is OptionType.BOOLEAN:
        return _flag(option, text, key)
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


def is_number(text: str) -> bool:
    """Return True if the text is a whole number in Java's syntax."""
    return _NUMBER.fullmatch(text) is not None


def wrong_value(option: Option, text: str, key: str, hint: str | None = None) -> ConfigError:
    """Return the error for a value that is not allowed."""
    value = shown(text)
    if is_redacted("", text) or (hint is None and option.name.startswith(_LOGIN_PREFIXES)):
        value, hint = NOT_SHOWN, None
    unit = unit_of(key) if option.is_number else None
    allowed = option.allowed if unit is None else f"{option.allowed}, in {unit.words}"
    return ConfigError(f"option {key} is {value}; allowed: {allowed}", hint=hint)


def not_allowed(key: str, text: str, allowed: str, hint: str | None = None) -> ConfigError:
    """Return the error for a text that is not allowed and is not secret."""
    return ConfigError(f"option {key} is {shown(text)}; allowed: {allowed}", hint=hint)


def _choice(option: Option, text: str, key: str) -> str:
    match = next((choice for choice in option.choices if choice == text), None)
    if match is None:
        hint = option.hints.get(text) or did_you_mean(text, option.choices)
        raise wrong_value(option, text, key, hint or option.hints.get(""))
    return match


def _number(option: Option, text: str, key: str) -> int | float:
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
    raise wrong_value(option, text, key, hint)


def _double(option: Option, text: str, key: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not option.accepts(number):
        raise not_allowed(key, text, option.allowed)
    return number


def _flag(option: Option, text: str, key: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise wrong_value(option, text, key)
    return text.lower() == "true"


class OptionType(Enum):
    """The type of an option's value, named as in Java's ConfigDef.Type."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"
    PASSWORD = "password"  # noqa: S105 the name of a type


@dataclass(frozen=True, slots=True)
class Option:
    """The definition of an option. The docstring of its field or attribute describes it to users.

    Args:
        kind: type of the value.
        name: Java's name without "kafka.", or the sink's own name.
        java_default: Java's default; None if Java has no default.
        sink_default: this sink's default if it differs from Java's because the sink writes in bulk,
            else None.
        batch_write: the default for batch writes if it differs, else None.
        low: smallest allowed number.
        high: largest allowed number; None for the largest number of the kind.
        fractional: True if the number may have decimals, like librdkafka's floats.
        extra_value: a single number outside low..high that is also allowed.
        choices: the allowed texts, or the members of a `StrEnum`; empty if any text is allowed.
        hints: hints for texts that are not allowed, by text; the key "" matches any other text.
        is_java_option: True if Java's producer has the option.
    """

    kind: OptionType
    name: str
    java_default: Value
    _: KW_ONLY
    sink_default: Value = None
    batch_write: Value = None
    low: float = 0
    high: float | None = None
    fractional: bool = False
    extra_value: int | None = None
    choices: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_java_option: bool = True

    @property
    def default(self) -> Value:
        """The value that applies if neither the user nor a profile sets the option."""
        return self.java_default if self.sink_default is None else self.sink_default

    @property
    def is_number(self) -> bool:
        """True for INT and LONG. The number can have decimals only if `fractional` is True."""
        return self.kind in (OptionType.INT, OptionType.LONG)

    @property
    def highest(self) -> float:
        """The largest allowed number."""
        if self.high is not None:
            return self.high
        return MAX_LONG if self.kind is OptionType.LONG else MAX_INT

    @property
    def allowed(self) -> str:
        """The allowed values, as text for an error message."""
        if self.choices:
            return ", ".join(choice or '""' for choice in self.choices)
        if self.kind is OptionType.DOUBLE:
            return f"a number from {self.low} to {self.high}"
        if not self.is_number:
            return _ALLOWED_TEXTS.get(self.kind.value, "any text")
        range_text = f"{self.low} to {self.highest}"
        return range_text if self.extra_value is None else f"{self.extra_value} or {range_text}"

    def accepts(self, number: float) -> bool:
        """Return True if this number is allowed."""
        return number == self.extra_value or self.low <= number <= self.highest


flag = partial(Option, OptionType.BOOLEAN)
integer = partial(Option, OptionType.INT)
long = partial(Option, OptionType.LONG)
double = partial(Option, OptionType.DOUBLE)
text = partial(Option, OptionType.STRING)
secret = partial(Option, OptionType.PASSWORD)


def setting(option: Option, default: Any = _OWN_DEFAULT) -> Any:
    """Declare a field of a configuration, and the option that sets it.

    Args:
        option: the option; the field's docstring describes it to users.
        default: the field's default; by default, the option's.
    """
    own = option.default if default is _OWN_DEFAULT else default
    return field(default=own, metadata={_OPTION: option})


def declared(table: type) -> dict[str, Option]:
    """Return the options that a class declares, by the name of the field or attribute."""
    own = {field.name: field.metadata.get(_OPTION) for field in _fields(table)}
    declared = {name: own.get(name) or vars(table).get(name) for name in _names(table)}
    return {name: option for name, option in declared.items() if isinstance(option, Option)}


def options_of(table: type) -> tuple[Option, ...]:
    """Return the options that a class declares."""
    return tuple(declared(table).values())


def fields_of(config: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration that options set, with their values."""
    return {
        field.name: values[field.metadata[_OPTION].name]
        for field in _fields(config)
        if _OPTION in field.metadata
    }


def _fields(table: type) -> tuple[Field[Any], ...]:
    return fields(table) if is_dataclass(table) else ()


def _names(table: type) -> Iterator[str]:
    """Yield the names of fields and attributes in the order of their declaration."""
    yield from dict.fromkeys((*vars(table).get("__annotations__", {}), *vars(table)))


def conflict(first: str, second: str, problem: str = "are both set") -> ConfigError:
    """Return the error for two options that cannot be combined."""
    return ConfigError(f"options {first} and {second} {problem}", hint="Remove one of them.")


def synonyms(first: str, second: str) -> ConfigError:
    """Return the error for two names of one option that have different values."""
    return conflict(first, second, "are synonyms but have different values")


def check_topic(option: str, topic: str) -> None:
    """Raise if the value of an option is not a valid topic name (Kafka's Topic.validate).

    Raises:
        ConfigError: the name is empty, too long, "." or "..", or has invalid characters.
    """
    if not is_topic_name(topic):
        raise ConfigError(
            f"option {option} is {shown(topic)}, which is not a valid topic name", hint=TOPIC_NAMES
        )


def names(text: str) -> frozenset[str]:
    """Return the whitespace-separated names in a text."""
    return frozenset(text.split())
