"""Sizes and counts for people to read; durations and sizes that people have given with a unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

KB: Final = 1_000
MB: Final = 1_000_000

_TIMES: Final = {
    1: ("ms", "msec", "millis", "millisecond", "milliseconds"),
    1_000: ("s", "sec", "secs", "second", "seconds"),
    60_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000: ("h", "hr", "hrs", "hour", "hours"),
    86_400_000: ("d", "day", "days"),
    604_800_000: ("w", "week", "weeks"),
}
_SIZES: Final = {
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
    """Names of units in lower case, by how many of the smallest each of them is."""
    one: int = 1
    """How many of the smallest are one of this measure."""


class Unit(Enum):
    """What a number counts; sizes given in kB, MB and GB are powers of 1,024, as Spark reads them.

    Source: ``JavaUtils.byteStringAs`` and ``timeStringAs`` of Spark.
    """

    MILLISECONDS = _Measure("milliseconds", _TIMES)
    SECONDS = _Measure("seconds", _TIMES, 1_000)
    BYTES = _Measure("bytes", _SIZES)
    KIBIBYTES = _Measure("units of 1,024 bytes", _SIZES, 2**10)
    BYTES_PER_SECOND = _Measure("bytes a second", _SIZES)

    @property
    def words(self) -> str:
        """The unit as a text has it after "in"."""
        return self.value.words

    def number(self, text: str) -> int | None:
        """A text such as "1h", "1.5 s" or "64MB" in this unit; None for any other.

        None also for what is no whole number of it, or has another kind of unit.
        """
        found = _QUANTITY.fullmatch(text)
        if found is None:
            return None
        name = found[2].lower()
        factor = next((size for size, names in self.value.units.items() if name in names), 0)
        number = Fraction(found[1]) * factor / self.value.one
        return int(number) if factor and number.denominator == 1 else None

    def hint(self, text: str) -> str | None:
        """What to write for a text with a unit; None where that is not known."""
        number = self.number(text)
        if number is None:
            return None
        why = ": sizes are powers of 1,024, as in Spark" if self.value.units is _SIZES else ""
        return f"Write {number} for {text}{why}."


def unit_of(option: str) -> Unit | None:
    """What the number of an option counts, by the option's name; None where that has no unit."""
    if option.endswith((".ms", "Ms")):
        return Unit.MILLISECONDS
    if option.endswith(".seconds"):
        return Unit.SECONDS
    if option.endswith(".kbytes"):
        return Unit.KIBIBYTES
    if option.endswith("bytesPerSecond"):
        return Unit.BYTES_PER_SECOND
    return Unit.BYTES if option.endswith(_SIZE_NAMES) else None


def size_text(size: float) -> str:
    """Bytes in B, kB (10^3) or MB (10^6), the same in every text; "12 B", "3.4 kB", "5.0 MB"."""
    if round(size) < KB:
        return f"{size:,.0f} B"
    if round(size / KB, 1) < KB:
        return f"{size / KB:,.1f} kB"
    return f"{size / MB:,.1f} MB"


def plural(count: float, one: str, many: str = "") -> str:
    """A count and what it counts: "1 retry", "2,000 retries".

    A count that is no whole number is rounded. `many` is `one` with an s, unless it is given.
    """
    text = f"{count:,.0f}"
    return f"{text} {one if text == '1' else many or one + 's'}"
