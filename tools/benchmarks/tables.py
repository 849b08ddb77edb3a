"""Tables of series with their columns, and targets."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tools.benchmarks.results import Series, ratio

Column = tuple[str, Callable[[Series], str]]
"""The heading of a column, and its cell for a series."""
CODEC: Column = ("codec", lambda result: result.codec)
RATE: Column = ("M rec/s", lambda result: f"{result.rate / 1e6:.2f}")
SPREAD: Column = (
    "min - max",
    lambda result: " - ".join(f"{rate / 1e6:.2f}" for rate in result.rates),
)
"""The rates of the slowest and fastest run, in millions of records per second."""
CPU: Column = ("CPU us/rec", lambda result: f"{result.cpu_us:.3f}")


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of a part: tables, targets, and all samples as JSON."""

    tables: Sequence[Table]
    targets: Sequence[Target]
    samples: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target, and whether the measured figure meets it."""

    what: str
    wanted: str
    figure: str
    met: bool


def _target(
    sign: str, what: str, limit: float, unit: str, measured: float, figure: str = ""
) -> Target:
    """Return a target. If set, `figure` replaces the measured number and its unit."""
    compare = {">=": operator.ge, "<=": operator.le}[sign]
    return Target(
        what=what,
        wanted=f"{sign} {limit:g}{unit}",
        figure=figure or f"{measured:.2f}{unit}",
        met=compare(measured, limit),
    )


at_least = partial(_target, ">=")
at_most = partial(_target, "<=")


def _ratio_target(
    sign: str,
    name: str,
    shown: Callable[[float], str],
    unit: str,
    what: str,
    limit: float,
    pair: tuple[Series, Series],
) -> Target:
    """Return the target for the ratio of a figure of two series, which are also shown."""
    share = ratio(*pair, name)
    both = " to ".join(shown(getattr(result, name)) for result in pair)
    return _target(sign, what, limit, "x", share, f"{share:.2f}x ({both} {unit})")


rate_target = partial(_ratio_target, ">=", "rate", lambda rate: f"{rate / 1e6:.2f}", "M rec/s")
cpu_target = partial(_ratio_target, "<=", "cpu_us", lambda us: f"{us:.3f}", "us")
time_target = partial(_ratio_target, "<=", "seconds", lambda s: f"{s:.2f}", "s")
"""Functions that return a target for two series, given what, the wanted ratio, and the series."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text. The first column is left-aligned, and all other columns contain numbers.

    `notes` follow the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: str = ""

    def markdown(self) -> str:
        """Return the table as Markdown."""
        head, *rows = (f"| {' | '.join(cells)} |" for cells in (self.columns, *self.rows))
        lines = [f"**{self.title}**", "", head, "|---|" + "---:|" * (len(self.columns) - 1), *rows]
        return "\n".join([*lines, *(["", self.notes] if self.notes else [])])


def contestant(heading: str) -> Column:
    """Return the column of the contestants' names."""
    return heading, lambda result: result.contestant


def fact(name: str, heading: str) -> Column:
    """Return the column of a fact."""

    def cell(result: Series) -> str:
        value = result.facts[name]
        return f"{value:,}" if isinstance(value, int) else str(value)

    return heading, cell


def relative(heading: str, reference: Callable[[Series], Series], name: str = "rate") -> Column:
    """Return the column of ratios to the reference of each series."""
    return heading, lambda result: f"{ratio(result, reference(result), name):.2f}x"


def compared(heading: str, reference: Callable[[Series], Series]) -> tuple[Column, ...]:
    """Return the columns of rates and CPU, with the ratios to the reference of each series."""
    rate, cpu = (relative(heading, reference, name) for name in ("rate", "cpu_us"))
    return RATE, SPREAD, rate, CPU, cpu


def series_table(
    title: str,
    names: Sequence[Column],
    figures: Sequence[Column],
    series: Sequence[Series],
    about: str = "",
) -> Table:
    """Return a table with a row for each series."""
    columns = (*names, *figures)
    rows = [[cell(result) for _, cell in columns] for result in series]
    return Table(title, [head for head, _ in columns], rows, about)


def target_table(targets: Sequence[Target]) -> Table:
    """Return a table of targets and measurements, and the number of targets that are met."""
    rows = [
        (target.what, target.wanted, target.figure, "yes" if target.met else "NO")
        for target in targets
    ]
    met = sum(target.met for target in targets)
    summary = f"{met} of {len(targets)} targets are met."
    return Table("Targets", ("target", "wanted", "measured", "met"), rows, summary)
