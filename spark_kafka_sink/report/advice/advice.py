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
    """One piece of advice."""

    setting: str
    direction: Direction
    evidence: str
    """The figures on which the conclusion is based."""
    conclusion: str

    def __str__(self) -> str:
        return f"{self.direction} {self.setting}: {self.conclusion} ({self.evidence})"
