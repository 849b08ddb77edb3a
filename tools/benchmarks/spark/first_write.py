"""Compare the first writes of Spark sessions: events from Parquet to a real Kafka.

Each sample comes from a new session, which runs one query in the JVM and then writes twice. The
sinks take turns, with the newest PySpark and with 4.1.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.benchmarks.payload import events_file
from tools.benchmarks.results import Series, Table, Target, at_most, attempt, notes, times
from tools.benchmarks.spark.contestants import (
    JVM,
    NULL_SINK,
    OURS,
    PYTHON_41,
    SINK,
    TUNED_JVM,
    WarmSpark,
)
from tools.benchmarks.spark.rates import write
from tools.support.jars import SPARK_SINK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tools.benchmarks.results import Sample
    from tools.benchmarks.spark.contestants import SparkContestant


WARM = f"{OURS} after warm_up(spark)"
NEWEST, OLDEST = version("pyspark"), "4.1"
"""Releases of PySpark in this environment and in `PYTHON_41`."""
FIRST, FIRST_WARM = 1.8, 1.2
"""Maximum ratios of a first write to a first write of Spark's own sink."""
SECOND_S = 0.45
"""Maximum time of the second write of `SECOND_RECORDS` records with PySpark 4.1."""
SECOND_RECORDS = 20_000
_SINKS = (SINK, NULL_SINK, TUNED_JVM, replace(SINK, name=WARM))


class Place(NamedTuple):
    """Parameters of a measurement: PySpark release, number of rows per write, name of the sink."""

    pyspark: str
    records: int
    sink: str


@dataclass(frozen=True, slots=True)
class Writes:
    """The first and second writes of the same sessions."""

    first: Series
    second: Series

    @classmethod
    def of(cls, sink: str) -> Writes:
        """Return empty series."""
        return cls(Series(sink, "none"), Series(sink, "none"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstWritePlan:
    """Numbers of events per write, and of sessions per sink, release and number of events."""

    records: tuple[int, ...]
    sessions: int


@dataclass(frozen=True, slots=True)
class FirstWriteFigures:
    """Both writes of each place, in order of measurement."""

    writes: Mapping[Place, Writes] = field(default_factory=dict)

    def tables(self) -> list[Table]:
        """Return one table."""
        columns = (
            *("sink", "pyspark", "rows", "first write, s", "min - max", "to JVM sink"),
            *("CPU s", "of that Python workers", "second write, s", "min - max", "to JVM sink"),
        )
        about = (
            "131-byte JSON events from Parquet, local[1]. The session has run one query over the "
            "same file. warm_up(spark) has ended before the clock starts. CPU is the total of the "
            "driver, the JVM and the Python workers during the first write. Spark's sink is "
            f"{SPARK_SINK.name} with both releases."
        )
        title = "First and second write of a new session"
        remarks = notes(about, [writes.first for writes in self.writes.values()])
        return [Table(title, columns, [self._row(place) for place in self.writes], remarks)]

    def targets(self) -> list[Target]:
        """Return the limits for first writes, relative to Spark's sink, and for a second write."""
        groups = dict.fromkeys((place.pyspark, place.records) for place in self.writes)
        limits = ((OURS, FIRST), (WARM, FIRST_WARM))
        targets = [
            self._relative(Place(*group, sink), limit) for group in groups for sink, limit in limits
        ]
        seconds = self._seconds(Place(OLDEST, SECOND_RECORDS, OURS), 2)
        what = f"{OURS}, pyspark {OLDEST}: second write of {SECOND_RECORDS:,} rows"
        return [*targets, at_most(what, SECOND_S, " s", seconds)]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [
            {**place._asdict(), "write": number, **series.to_dict()}
            for place, writes in self.writes.items()
            for number, series in ((1, writes.first), (2, writes.second))
        ]

    def _row(self, place: Place) -> tuple[str, ...]:
        name = (place.sink, place.pyspark, f"{place.records:,}")
        first = self.writes[place].first.samples
        if not first:
            return (*name, "failed", *["-"] * 7)
        cpu_s = (f"{median(one.cpu_s for one in first):.2f}",)
        workers_cpu_s = (f"{median(one.workers_cpu_s for one in first):.2f}",)
        return (*name, *self._times(place, 1), *cpu_s, *workers_cpu_s, *self._times(place, 2))

    def _times(self, place: Place, number: int) -> tuple[str, str, str]:
        """Return the median time, the range, and the ratio to Spark's own sink."""
        seconds = [one.seconds for one in self._samples(place, number)]
        middle = median(seconds)
        theirs = self._seconds(place._replace(sink=JVM), number)
        return f"{middle:.2f}", f"{min(seconds):.2f} - {max(seconds):.2f}", times(middle, theirs)

    def _relative(self, place: Place, limit: float) -> Target:
        what = (
            f"{place.sink}, pyspark {place.pyspark}: first write of {place.records:,} rows, time "
            "relative to Spark's own sink's"
        )
        ours, theirs = self._seconds(place, 1), self._seconds(place._replace(sink=JVM), 1)
        if ours is None or theirs is None:
            return at_most(what, limit, "x", None)
        figure = f"{ours / theirs:.2f}x ({ours:.2f} to {theirs:.2f} s)"
        return at_most(what, limit, "x", ours / theirs, figure)

    def _seconds(self, place: Place, number: int) -> float | None:
        samples = self._samples(place, number)
        return median(one.seconds for one in samples) if samples else None

    def _samples(self, place: Place, number: int) -> Sequence[Sample]:
        writes = self.writes.get(place)
        if writes is None:
            return ()
        return (writes.first if number == 1 else writes.second).samples


def measure(
    bootstrap_servers: str, plan: FirstWritePlan, log: Callable[[str], None]
) -> FirstWriteFigures:
    """Run all sessions with the sinks in turn, in reverse order in every second round."""
    sinks = _installed(log)
    places = {
        Place(release, records, name): sink
        for records in plan.records
        for (release, name), sink in sinks.items()
    }
    figures = FirstWriteFigures({place: Writes.of(place.sink) for place in places})
    for number in range(plan.sessions):
        for place in list(places)[:: -1 if number % 2 else 1]:
            what = f"{place.sink}, pyspark {place.pyspark}, {place.records:,} rows"
            log(f"first write, session {number + 1} of {plan.sessions}: {what}")
            _run(bootstrap_servers, place, places[place], figures.writes[place], log)
    return figures


def _installed(log: Callable[[str], None]) -> dict[tuple[str, str], SparkContestant]:
    """Return the sinks by release and name."""
    pythons = {NEWEST: sys.executable}
    if PYTHON_41.exists():
        pythons[OLDEST] = str(PYTHON_41)
    else:
        log(f"pyspark {OLDEST} is omitted: {PYTHON_41} does not exist")
    return {
        (release, sink.name): replace(sink, python=python)
        for release, python in pythons.items()
        for sink in _SINKS
    }


def _run(
    bootstrap_servers: str,
    place: Place,
    sink: SparkContestant,
    writes: Writes,
    log: Callable[[str], None],
) -> None:
    """Write twice in a new session."""
    query = {"query": str(events_file(place.records)), "warm_up": place.sink == WARM}

    def session() -> tuple[Sample, Sample]:
        with WarmSpark(python=sink.python) as spark:
            spark.ask(query)
            first = write(spark, sink, bootstrap_servers, place.records)
            return first, write(spark, sink, bootstrap_servers, place.records)

    samples = attempt(session, writes.first.failures, log)
    if samples is not None:
        writes.first.samples.append(samples[0])
        writes.second.samples.append(samples[1])
