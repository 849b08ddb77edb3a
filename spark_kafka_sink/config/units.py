"""The unit of an option's number, and numbers with a unit such as "64MB"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMES = {
    1: ("ms", "msec", "millis", "millisecond", "milliseconds"),
    1_000: ("s", "sec", "secs", "second", "seconds"),
    60_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000: ("h", "hr", "hrs", "hour", "hours"),
    86_400_000: ("d", "day", "days"),
    604_800_000: ("w", "week", "weeks"),
}
_SIZES = {
    1: ("b", "byte", "bytes"),
    2**10: ("k", "kb", "kib"),
    2**20: ("m", "mb", "mib"),
    2**30: ("g", "gb", "gib"),
    2**40: ("t", "tb", "tib"),
}
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-z]+)", re.ASCII | re.IGNORECASE)
_SIZE_NAMES = ("batch.size", "buffer.memory", "max.request.size", ".bytes")


@dataclass(frozen=True, slots=True)
class _Measure:
    words: str
    units: Mapping[int, tuple[str, ...]]
    """The names of each unit in lower case, by the unit's size in the smallest unit."""
    size: int = 1
    """The size of the option's unit, in the smallest unit."""


class Unit(Enum):
    """The unit of an option's number. kB, MB and GB are powers of 1,024, as in Spark.

    Source: ``JavaUtils.byteStringAs`` and ``timeStringAs`` of Spark.
    """

    MILLISECONDS = _Measure("milliseconds", _TIMES)
    SECONDS = _Measure("seconds", _TIMES, 1_000)
    BYTES = _Measure("bytes", _SIZES)
    KIBIBYTES = _Measure("units of 1,024 bytes", _SIZES, 2**10)
    BYTES_PER_SECOND = _Measure("bytes a second", _SIZES)

    @property
    def words(self) -> str:
        """The unit's name, for use after the word "in"."""
        return self.value.words

    def number(self, text: str) -> int | None:
        """Parse a text such as "1h", "1.5 s" or "64MB", and return its value in this unit.

        Return None if the text is not a quantity, has a different kind of unit, or is not a whole
        number of this unit.
        """
        match = _QUANTITY.fullmatch(text)
        if match is None:
            return None
        name = match[2].lower()
        factor = next((size for size, names in self.value.units.items() if name in names), 0)
        number = Fraction(match[1]) * factor / self.value.size
        return int(number) if factor and number.denominator == 1 else None

    def hint(self, text: str) -> str | None:
        """Return a hint with the number to write instead of a quantity with a unit, or None."""
        number = self.number(text)
        if number is None:
            return None
        why = ": sizes are powers of 1,024, as in Spark" if self.value.units is _SIZES else ""
        return f"Write {number} for {text}{why}."


def unit_of(option: str) -> Unit | None:
    """Derive the unit of an option's number from its name. Return None if it has no unit."""
    if option.endswith((".ms", "Ms")):
        return Unit.MILLISECONDS
    if option.endswith(".seconds"):
        return Unit.SECONDS
    if option.endswith(".kbytes"):
        return Unit.KIBIBYTES
    if option.endswith("bytesPerSecond"):
        return Unit.BYTES_PER_SECOND
    return Unit.BYTES if option.endswith(_SIZE_NAMES) else None
