"""The first write of a fresh session, where nothing is compiled and no worker runs yet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.payload import events_file
from tools.benchmarks.sample import Series, find
from tools.benchmarks.spark.contestants import JVM, OURS, SINK, TUNED_JVM
from tools.benchmarks.spark.figures import spark_table
from tools.benchmarks.spark.measuring import write
from tools.benchmarks.spark.warm import WarmSpark
from tools.benchmarks.targets import Target, at_least

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.sample import Sample
    from tools.benchmarks.spark.contestants import SparkContestant
    from tools.benchmarks.tables import Table

WANTED = 1.5
"""Of the tuned JVM sink's rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstWritePlan:
    """Events of the write, and sessions of each contestant."""

    records: int
    sessions: int


@dataclass(frozen=True, slots=True)
class FirstWriteFigures:
    """Both contestants."""

    records: int
    series: Sequence[Series]

    def tables(self) -> list[Table]:
        """One."""
        title = "First write of a fresh session: 131-byte JSON events from Parquet, local[1]"
        about = (
            f"{self.records:,} events; the clock starts when the session is there and the file's "
            "schema is read."
        )
        return [spark_table(self.series, title, about)]

    def targets(self) -> list[Target]:
        """Against the tuned JVM sink."""
        ours, theirs = find(self.series, OURS), find(self.series, JVM)
        ratio, figure = None, ""
        if ours and theirs:
            ratio = ours.rate / theirs.rate
            figure = f"{ratio:.2f}x ({ours.rate / 1e6:.2f} to {theirs.rate / 1e6:.2f} M rec/s)"
        what = "Spark, first write of a session: rate to the tuned JVM sink's"
        return [at_least(what, WANTED, "x", ratio, figure)]

    def to_dict(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [one.to_dict() for one in self.series]


def measure(
    bootstrap_servers: str, plan: FirstWritePlan, tell: Callable[[str], None]
) -> FirstWriteFigures:
    """All sessions, the contestants in turns."""
    events_file(plan.records)
    heats = [(each, Series(each.name, "none")) for each in (SINK, TUNED_JVM)]
    for number in range(plan.sessions):
        for contestant, series in heats:
            tell(f"first write, session {number + 1} of {plan.sessions}: {contestant.name}")
            series.add(partial(_first, contestant, bootstrap_servers, plan.records), tell)
    return FirstWriteFigures(plan.records, [series for _, series in heats])


def _first(contestant: SparkContestant, bootstrap_servers: str, records: int) -> Sample:
    with WarmSpark() as spark:
        return write(spark, contestant, bootstrap_servers, records)
