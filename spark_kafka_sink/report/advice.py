"""One piece of advice: the setting to change, how, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    """The recommended change of a setting."""

    RAISE = "raise"
    LOWER = "lower"
    CHECK = "check"
    SET = "set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One piece of advice. `figure` is the evidence, and `sentence` is the conclusion."""

    setting: str
    direction: Direction
    figure: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.direction} {self.setting}: {self.sentence} ({self.figure})"
