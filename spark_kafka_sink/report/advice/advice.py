"""What the advisor says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MB = 1_000_000


class Direction(StrEnum):
    """What to do with a setting."""

    RAISE = "raise"
    LOWER = "lower"
    CHECK = "check"
    SET = "set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One piece of advice; `figure` is what it rests on, `sentence` what to make of it."""

    setting: str
    direction: Direction
    figure: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.direction} {self.setting}: {self.sentence} ({self.figure})"
