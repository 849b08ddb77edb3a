"""librdkafka's names for options that have a different name in Java's producer.

Only names with the same meaning are listed; their units might differ.

Source: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.java_integers import MAX_INT
from spark_kafka_sink.config.option_definition import PREFIX, Option
from spark_kafka_sink.config.option_parser import parse_value, synonym_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Alias:
    """An alternative name for an option, and how to convert its value."""

    option: str
    unit: int = 1
    """The alias's unit, as a multiple of the option's unit."""
    special: tuple[str, int] | None = None
    """A special value of the alias, and the corresponding value of the option."""


ALIASES: Mapping[str, Alias] = {
    "compression.codec": Alias("compression.type"),
    "max.in.flight": Alias("max.in.flight.requests.per.connection"),
    "message.max.bytes": Alias("max.request.size"),
    "message.send.max.retries": Alias("retries"),
    "message.timeout.ms": Alias("delivery.timeout.ms", special=("0", MAX_INT)),
    "metadata.broker.list": Alias("bootstrap.servers"),
    "queue.buffering.max.kbytes": Alias("buffer.memory", unit=1024),
    "queue.buffering.max.ms": Alias("linger.ms"),
    "request.required.acks": Alias("acks"),
    "socket.receive.buffer.bytes": Alias("receive.buffer.bytes", special=("0", -1)),
    "socket.send.buffer.bytes": Alias("send.buffer.bytes", special=("0", -1)),
    "socket.timeout.ms": Alias("request.timeout.ms"),
    "topic.metadata.refresh.interval.ms": Alias("metadata.max.age.ms", special=("-1", MAX_INT)),
}


class NamedOptions(dict[str, str]):
    """The options that the user set, stored under their names in the table.

    Args:
        table: all options.
        aliases: alternative names for these options.
    """

    def __init__(self, table: Iterable[Option], aliases: Mapping[str, Alias]) -> None:
        super().__init__()
        self._options = {option.name: option for option in table}
        self._aliases = aliases
        self._spellings: dict[str, str] = {}

    def spelling(self, name: str) -> str:
        """Return the prefixed name under which the user set the option, or else its own name."""
        return f"{PREFIX}{self._spellings.get(name, name)}"

    def add(self, name: str, value: str) -> None:
        """Add an option by its own name or by an alias.

        Raises:
            ConfigError: the value of an alias is not allowed, or the option is already set to a
                different value by another name.
        """
        alias = self._aliases.get(name)
        option_name, text = (
            (name, value)
            if alias is None
            else (alias.option, self._convert_value(name, value, alias))
        )
        if option_name in self and not _is_same_value(option_name, self[option_name], text):
            names = sorted((self._spellings[option_name], name))
            raise synonym_error(f"{PREFIX}{names[0]}", f"{PREFIX}{names[1]}")
        self[option_name] = text
        self._spellings[option_name] = name

    def _convert_value(self, name: str, value: str, alias: Alias) -> str:
        """Convert the value of an alias to a value of its option."""
        text = str(value).strip()
        if alias.special is not None and text == alias.special[0]:
            return str(alias.special[1])
        option = replace(self._options[alias.option], is_java_option=False)
        if alias.unit == 1:
            parsed = parse_value(option, text, f"{PREFIX}{name}")
            return str(parsed) if option.choices else text
        scaled = replace(option, high=option.highest // alias.unit)
        parse_value(scaled, text, f"{PREFIX}{name}")
        return str(int(text) * alias.unit)


def _is_same_value(option: str, first: str, second: str) -> bool:
    texts = {str(first).strip(), str(second).strip()}
    return len(texts) == 1 or (option == "acks" and texts == {"all", "-1"})
