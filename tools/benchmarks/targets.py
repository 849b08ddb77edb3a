"""What the project aims at: a limit, what was measured, and whether it was met."""

from __future__ import annotations

from dataclasses import dataclass

_NOT_MEASURED = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One aim: `met` is None when what it compares with was not measured."""

    what: str
    wanted: str
    figure: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "yes", False: "NO", None: "not measured"}[self.met]


def at_least(
    what: str, wanted: float, unit: str, measured: float | None, figure: str = ""
) -> Target:
    """Met from a value on. `unit` follows the numbers; `figure` tells more than the number."""
    return Target(
        what=what,
        wanted=f">= {wanted:g}{unit}",
        figure=_figure(measured, unit, figure),
        met=None if measured is None else measured >= wanted,
    )


def at_most(
    what: str, wanted: float, unit: str, measured: float | None, figure: str = ""
) -> Target:
    """Met up to a value; as `at_least` otherwise."""
    return Target(
        what=what,
        wanted=f"<= {wanted:g}{unit}",
        figure=_figure(measured, unit, figure),
        met=None if measured is None else measured <= wanted,
    )


def _figure(measured: float | None, unit: str, figure: str) -> str:
    return _NOT_MEASURED if measured is None else figure or f"{measured:.2f}{unit}"
