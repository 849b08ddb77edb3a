"""One thing about a write varied, all else being the same: partitions, topics, rows of a batch."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.sample import Series, attempt
from tools.benchmarks.spark.measuring import FIRST_WARM_UP, write
from tools.benchmarks.spark.warm import WarmSpark
from tools.benchmarks.tables import Table, notes, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tools.benchmarks.sample import Sample
    from tools.benchmarks.spark.contestants import SparkContestant
    from tools.benchmarks.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """A contestant at one value of what is varied, and how many records it is given there."""

    contestant: SparkContestant
    point: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The series by contestant and point, and what the table says of them."""

    title: str
    axis: str
    about: str
    judge: Callable[[Sweep], list[Target]]
    series: Mapping[tuple[str, int], Series] = field(default_factory=dict)

    def rate(self, contestant: str, point: int) -> float | None:
        """Median records a second, if it was measured."""
        found = self.series.get((contestant, point))
        return found.rate if found and found.samples else None

    def kept(self, contestant: str, point: int, first: int) -> float | None:
        """The rate at a point to that at another."""
        here, there = self.rate(contestant, point), self.rate(contestant, first)
        return here / there if here and there else None

    def tables(self) -> list[Table]:
        """One; ratios are to a contestant's first point."""
        columns = ("sink", self.axis, "M rec/s", "min - max", "to the first", "CPU us/rec")
        rows = [
            (name, f"{point:,}", *self._cells(name, one))
            for (name, point), one in self.series.items()
        ]
        about = notes(self.about, list(self.series.values()))
        return [Table(self.title, (*columns, "of that JVM", "Python"), rows, about)]

    def targets(self) -> list[Target]:
        """As the part has it."""
        return self.judge(self)

    def to_dict(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [{"point": point, **one.to_dict()} for (_, point), one in self.series.items()]

    def _cells(self, name: str, one: Series) -> tuple[str, ...]:
        if not one.samples:
            return ("failed", *["-"] * 5)
        first = next(point for other, point in self.series if other == name)
        return (
            f"{one.rate / 1e6:.2f}",
            spread(one),
            times(one.rate, self.rate(name, first)),
            f"{one.cpu_us:.2f}",
            f"{one.jvm_cpu_us:.2f}",
            f"{one.workers_cpu_us:.2f}",
        )


def run(
    heats: list[Heat],
    one_write: Callable[[WarmSpark, Heat], Sample],
    bootstrap_servers: str,
    rounds: int,
    tell: Callable[[str], None],
) -> dict[tuple[str, int], Series]:
    """All rounds: the contestants in turns, each with a warm Spark of its own."""
    found = {
        (heat.contestant.name, heat.point): Series(heat.contestant.name, "none") for heat in heats
    }
    first = {heat.contestant.name: heat for heat in reversed(heats)}
    with ExitStack() as stack:
        sparks = {name: stack.enter_context(WarmSpark()) for name in first}
        for name, heat in first.items():
            tell(f"warming up {name}")
            warm_up = partial(write, sparks[name], heat.contestant, bootstrap_servers)
            series = found[name, heat.point]
            attempt(partial(warm_up, FIRST_WARM_UP), series.failures, tell)
        for number in range(rounds):
            for heat in heats:
                name = heat.contestant.name
                tell(f"round {number + 1} of {rounds}: {name}, {heat.point:,}")
                found[name, heat.point].add(partial(one_write, sparks[name], heat), tell)
    return found
