"""librdkafka's names for options that Java's producer has under another name.

From librdkafka's CONFIGURATION.md. Only names that mean the same are here; units may differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option import MAX_INT, PREFIX, parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.config.option import Option


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of an option: its unit in the option's unit, and a number read differently."""

    option: str
    unit: int = 1
    special: tuple[str, int] | None = None
    """A value there, and what it is here."""


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
    """Options as given, by their table's names, whatever names they came by.

    Args:
        table: the options there are.
        aliases: other names of theirs.
    """

    def __init__(self, table: Iterable[Option], aliases: Mapping[str, Alias]) -> None:
        super().__init__()
        self._options = {option.name: option for option in table}
        self._aliases = aliases
        self._given: dict[str, str] = {}

    def given_name(self, name: str) -> str:
        """What an option was called by the user, prefix included; its own name if not at all."""
        return f"{PREFIX}{self._given.get(name, name)}"

    def add(self, name: str, value: str) -> None:
        """Take an option by its own name or by an alias.

        Raises:
            ConfigError: an alias has a value that is not allowed, or another name for the same
                option has been given another value.
        """
        alias = self._aliases.get(name)
        real, found = (
            (name, value) if alias is None else (alias.option, self._read(name, value, alias))
        )
        if real in self and not _same(real, self[real], found):
            names = sorted((self._given[real], name))
            raise ConfigError(
                f"options {PREFIX}{names[0]} and {PREFIX}{names[1]} mean the same and have "
                "different values",
                hint="Leave one of them out.",
            )
        self[real] = found
        self._given[real] = name

    def _read(self, name: str, value: str, alias: Alias) -> str:
        """The value of an alias as its option has it; the text stays, but for another unit."""
        text = str(value).strip()
        if alias.special is not None and text == alias.special[0]:
            return str(alias.special[1])
        option = self._options[alias.option]
        if alias.unit == 1:
            parse_value(option, text, f"{PREFIX}{name}")
            return text
        smaller = replace(option, high=option.top // alias.unit)
        parse_value(smaller, text, f"{PREFIX}{name}")
        return str(int(text) * alias.unit)


def _same(option: str, one: str, other: str) -> bool:
    texts = {str(one).strip(), str(other).strip()}
    return len(texts) == 1 or (option == "acks" and texts == {"all", "-1"})
