"""The figures as tables, for a terminal and for Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table as RichTable

from tools.benchmarks.sample import failure_notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.benchmarks.sample import Series
    from tools.benchmarks.targets import Target


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first column is words, the others are figures. `notes` go below."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: str = ""

    def rich(self) -> RichTable:
        """For a terminal."""
        table = RichTable(title=self.title, caption=self.notes or None, box=box.SIMPLE)
        table.title_justify = table.caption_justify = "left"
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a page."""
        lines = [f"**{self.title}**", "", _line(self.columns)]
        lines.append("|---|" + "---:|" * (len(self.columns) - 1))
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, *(["", self.notes] if self.notes else [])])


def compared(one: Series, reference: Series | None, digits: int) -> tuple[str, ...]:
    """Who, with which codec, how fast and at which CPU cost, each also as a ratio."""
    if not one.samples:
        return (one.contestant, one.codec, "failed", *["-"] * 4)
    return (
        one.contestant,
        one.codec,
        f"{one.rate / 1e6:.2f}",
        spread(one),
        times(one.rate, reference.rate if reference else None),
        f"{one.cpu_us:.{digits}f}",
        times(one.cpu_us, reference.cpu_us if reference else None),
    )


def spread(one: Series) -> str:
    """Slowest and fastest run, in millions of records a second."""
    return f"{one.slowest / 1e6:.2f} - {one.fastest / 1e6:.2f}"


def times(value: float, reference: float | None) -> str:
    """A ratio, where there is something to compare with."""
    return "-" if reference is None else f"{value / reference:.2f}x"


def target_table(targets: Sequence[Target]) -> Table:
    """What was aimed at, and what came out; below it, what was missed."""
    rows = [(target.what, target.wanted, target.figure, target.verdict) for target in targets]
    return Table("Targets", ("target", "wanted", "measured", "met"), rows, summary(targets))


def summary(targets: Sequence[Target]) -> str:
    """In a sentence or two, how many targets were met and which were not."""
    judged = [target for target in targets if target.met is not None]
    missed = [target for target in judged if not target.met]
    met = f"{len(judged) - len(missed)} of {len(judged)} targets are met."
    names = "; ".join(f"{each.what} ({each.figure})" for each in missed)
    return f"{met} Missed: {names}." if missed else met


def notes(about: str, series: Sequence[Series]) -> str:
    """What there is to say below a table, and which runs failed."""
    failed = failure_notes((f"{one.contestant}, {one.codec},", one.failures) for one in series)
    return " ".join([about, *failed])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
