"""The definition of an option (name, type, default, allowed values), and how classes declare it."""

from __future__ import annotations

from dataclasses import KW_ONLY, Field, dataclass, field, fields, is_dataclass
from enum import Enum, StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.java_integers import MAX_INT, MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Value = str | int | float | bool | None
PREFIX = "kafka."
"""Prefix of the producer's options."""
_ALLOWED_TEXTS = {
    "boolean": "true or false",
    "list": "host:port,host:port",
    "password": "text, env:NAME or file:PATH",
}
_OPTION = "option"
"""Key of a field's option in the field's metadata."""
_CONVERTED = "converted"
"""Key of a field whose value differs from the option's, in the field's metadata."""
_OWN_DEFAULT: Any = object()


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
    """The definition of an option, which the docstring of its field describes to users."""

    kind: OptionType
    """Type of the value."""
    name: str
    """Java's name without "kafka.", or the sink's own name."""
    java_default: Value
    """Java's default; None if Java has no default."""
    _: KW_ONLY
    sink_default: Value = None
    """This sink's default if it differs from Java's because the sink writes in bulk, else None."""
    batch_write: Value = None
    """The default for batch writes if it differs, else None."""
    low: float = 0
    """Smallest allowed number."""
    high: float | None = None
    """Largest allowed number; None for the largest number of the kind."""
    fractional: bool = False
    """True if the number may have decimals, like librdkafka's floats."""
    extra_value: int | None = None
    """A single number outside low..high that is also allowed."""
    choices: tuple[str, ...] = ()
    """The allowed texts, or the members of a `StrEnum`; empty if any text is allowed."""
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Hints for texts that are not allowed, by text; the key "" matches any other text."""
    ignores_case: bool = False
    """True if `choices` match in any case, as they do for all options that Java does not have."""
    is_java_option: bool = True
    """True if Java's producer has the option; False if its values are spelled as in librdkafka."""

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


boolean_option = partial(Option, OptionType.BOOLEAN)
int_option = partial(Option, OptionType.INT)
long_option = partial(Option, OptionType.LONG)
double_option = partial(Option, OptionType.DOUBLE)
text_option = partial(Option, OptionType.STRING)
secret_option = partial(Option, OptionType.PASSWORD)


def enum_option(name: str, default: StrEnum, *, ignores_case: bool = False) -> Option:
    """Return an option whose values are the members of an enum."""
    return text_option(name, default, choices=tuple(type(default)), ignores_case=ignores_case)


def option_field(option: Option, default: Any = _OWN_DEFAULT) -> Any:
    """Declare a field of a configuration, and the option that sets it.

    Args:
        option: the option; the field's docstring describes it to users.
        default: the field's default if the option's value is converted; otherwise, the field has
            the option's default and value.
    """
    is_converted = default is not _OWN_DEFAULT
    return field(
        default=default if is_converted else option.default,
        metadata={_OPTION: option, _CONVERTED: is_converted},
    )


def enum_field(name: str, default: StrEnum, *, ignores_case: bool = False) -> Any:
    """Declare a field, and an option whose values are the members of an enum."""
    return option_field(enum_option(name, default, ignores_case=ignores_case))


def _field_factory(kind: OptionType) -> Callable[..., Any]:
    """Return a function that declares a field; its arguments are those of `Option`."""

    def declare(*args: Any, field_default: Any = _OWN_DEFAULT, **kwargs: Any) -> Any:
        return option_field(Option(kind, *args, **kwargs), field_default)

    return declare


boolean_field = _field_factory(OptionType.BOOLEAN)
int_field = _field_factory(OptionType.INT)
long_field = _field_factory(OptionType.LONG)
double_field = _field_factory(OptionType.DOUBLE)
text_field = _field_factory(OptionType.STRING)


def declared_options(table: type) -> dict[str, Option]:
    """Return the options that a class declares, by the name of the field or attribute."""
    options = {field.name: field.metadata.get(_OPTION) for field in _dataclass_fields(table)}
    declared = {name: options.get(name) or vars(table).get(name) for name in _declared_names(table)}
    return {name: option for name, option in declared.items() if isinstance(option, Option)}


def options_of(table: type) -> tuple[Option, ...]:
    """Return the options that a class declares."""
    return tuple(declared_options(table).values())


def fields_of(config: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration that have the values of options, with these values."""
    return {
        field.name: values[field.metadata[_OPTION].name]
        for field in _dataclass_fields(config)
        if _OPTION in field.metadata and not field.metadata[_CONVERTED]
    }


def _dataclass_fields(table: type) -> tuple[Field[Any], ...]:
    return fields(table) if is_dataclass(table) else ()


def _declared_names(table: type) -> Iterator[str]:
    """Yield the names of fields and attributes in the order of their declaration."""
    yield from dict.fromkeys((*vars(table).get("__annotations__", {}), *vars(table)))


def names_in(text: str) -> frozenset[str]:
    """Return the whitespace-separated names in a text."""
    return frozenset(text.split())
