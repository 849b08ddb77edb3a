"""What one option is: its name, type, defaults, and the values it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS = {
    "boolean": "true or false",
    "list": "host:port,host:port",
    "password": "any text, env:NAME or file:PATH",
}
PREFIX = "kafka."
"""Before the names of the producer's options."""
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

Value = str | int | float | bool | None


class Kind(Enum):
    """The type of an option's value, as Java's ConfigDef.Type names it."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    STRING = "string"
    LIST = "list"
    PASSWORD = "password"  # noqa: S105 the name of a type


class Importance(StrEnum):
    """How much an option matters, as Java ranks it (ConfigDef.Importance)."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row of the options table.

    Args:
        name: Java's name without "kafka.", or the sink's own name.
        kind: type of the value.
        java: Java's default; None where there is none.
        doc: one line on what it does.
        bulk: our default where a bulk writer needs another than Java's; None where it does not.
        batch_write: the default of a batch write, where that is another one.
        low: smallest number allowed.
        high: largest number allowed; None for the largest of the kind.
        fractional: whether a number may have decimals, as librdkafka's floats.
        also: a single number allowed although it lies outside low..high.
        choices: the only texts allowed; empty for any text.
        hints: what to write instead of a text that is none of them, by that text; "" for any other.
        importance: Java's rank.
        of_java: whether Java's producer has the option too.
    """

    name: str
    kind: Kind
    java: Value
    doc: str
    bulk: Value = None
    batch_write: Value = None
    low: int = 0
    high: int | None = None
    fractional: bool = False
    also: int | None = None
    choices: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    importance: Importance = Importance.MEDIUM
    of_java: bool = True

    @property
    def default(self) -> Value:
        """The value that holds when neither the user nor a profile says anything."""
        return self.java if self.bulk is None else self.bulk

    @property
    def field(self) -> str:
        """The name of the option's field in `ProducerConfig`, if it has one of its own."""
        return self.name.replace(".", "_")

    @property
    def is_number(self) -> bool:
        """Whether the value is a number, a whole one unless it is `fractional`."""
        return self.kind in (Kind.INT, Kind.LONG)

    @property
    def top(self) -> int:
        """The largest number allowed."""
        if self.high is not None:
            return self.high
        return MAX_LONG if self.kind is Kind.LONG else MAX_INT

    @property
    def allowed(self) -> str:
        """The values allowed, in words."""
        if self.choices:
            return ", ".join(choice or '""' for choice in self.choices)
        if not self.is_number:
            return _WORDS.get(self.kind.value, "any text")
        span = f"{self.low} to {self.top}"
        return span if self.also is None else f"{self.also} or {span}"

    def accepts(self, number: float) -> bool:
        """Whether a number is allowed."""
        return number == self.also or self.low <= number <= self.top
