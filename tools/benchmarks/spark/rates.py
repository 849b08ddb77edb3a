"""Compare the sink with its peers: JSON events from Parquet to a real Kafka, `local[1]`.

Each peer has its own warm Spark, and the peers take turns in each round. Every measured write
follows a small write of the same kind, so that the workers are already running.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.results import (
    Series,
    Table,
    Target,
    at_least,
    at_most,
    attempt,
    compared,
    find,
    notes,
)
from tools.benchmarks.spark.contestants import (
    CODECS,
    JVM,
    OURS,
    SINK_41,
    WarmSpark,
    keyed,
    present,
)
from tools.benchmarks.topics import PARTITIONS, fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.results import Sample
    from tools.benchmarks.spark.contestants import SparkContestant


RATE = {"none": 1.4, "lz4": 1.4, "zstd": 2.0}
"""Minimum ratio of the rate to the tuned JVM sink's rate."""
CPU_SHARE = 0.75
"""Maximum ratio of the CPU per record to the tuned JVM sink's."""
PYTHON_US, PYTHON_US_41 = 0.2, 0.25
"""Maximum CPU microseconds of the Python workers per uncompressed record. The second limit is for
pyspark 4.1.
"""
WORKER_MIB = 200 + 64
"""Maximum peak RSS of a worker: 200 MB plus the default buffer.memory."""
_TITLE = "Spark: 131-byte JSON events from Parquet, local[1], warm session"
ABOUT = (
    "CPU is the total of the driver, the JVM and the Python workers, including reading; ratios are "
    "relative to the tuned JVM sink with the same codec and kind of records. MiB are the peak RSS "
    "during a write: of the largest Python worker, of all workers (including idle ones), and of "
    "the JVM, which keeps memory of earlier writes."
)
"""Notes below a table of Spark writes."""


@dataclass(frozen=True, slots=True)
class SparkFigures:
    """The series of each contestant and codec."""

    series: Sequence[Series]

    def tables(self) -> list[Table]:
        """Return one table."""
        return [spark_table(self.series)]

    def targets(self) -> list[Target]:
        """Return the targets relative to the tuned JVM sink, and the limits for the workers."""
        names = {"null keys": (OURS, JVM), "keyed": (keyed(OURS), keyed(JVM))}
        targets: list[Target] = []
        for kind, (ours, theirs) in names.items():
            for codec in CODECS:
                what = f"Spark, {kind}, {codec}"
                found, reference = find(self.series, ours, codec), find(self.series, theirs, codec)
                targets += against_jvm(what, found, reference, rate=RATE[codec])
            old = f"{SINK_41.name}{ours.removeprefix(OURS)}"
            targets.append(self._python(f"Spark, {kind}, none", ours, PYTHON_US))
            targets.append(self._python(f"Spark 4.1, {kind}, none", old, PYTHON_US_41))
        return [*targets, self._memory()]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [one.to_dict() for one in self.series]

    def _python(self, what: str, name: str, most: float) -> Target:
        found = find(self.series, name)
        cost = found.workers_cpu_us if found else None
        return at_most(f"{what}: CPU of the Python workers", most, " us/rec", cost)

    def _memory(self) -> Target:
        ours = [one for one in self.series if one.contestant in {OURS, keyed(OURS)} and one.samples]
        peak = max((one.peak_mib for one in ours), default=None)
        figure = "" if peak is None else f"{peak:.0f} MiB"
        return at_most("Spark: peak RSS of the worker", WORKER_MIB, " MiB", peak, figure)


def against_jvm(
    what: str,
    ours: Series | None,
    theirs: Series | None,
    *,
    rate: float,
    cpu_share: float = CPU_SHARE,
) -> tuple[Target, Target]:
    """Return the targets for rate and CPU relative to the tuned JVM sink."""
    faster, cheaper, rates, costs = None, None, "", ""
    if ours and theirs:
        faster, cheaper = ours.rate / theirs.rate, ours.cpu_us / theirs.cpu_us
        rates = f"{faster:.2f}x ({ours.rate / 1e6:.2f} to {theirs.rate / 1e6:.2f} M rec/s)"
        costs = f"{cheaper:.2f}x ({ours.cpu_us:.2f} to {theirs.cpu_us:.2f} us)"
    return (
        at_least(f"{what}: rate relative to the tuned JVM sink's", rate, "x", faster, rates),
        at_most(f"{what}: CPU relative to the tuned JVM sink's", cpu_share, "x", cheaper, costs),
    )


def _keyed_like(one: Series) -> str:
    return keyed(JVM) if one.contestant.endswith(keyed("")) else JVM


def spark_table(
    series: Sequence[Series],
    title: str = _TITLE,
    about: str = ABOUT,
    reference: Callable[[Series], str] = _keyed_like,
) -> Table:
    """Return rates, CPU by process, and memory. Ratios are relative to Spark's tuned sink.

    `reference` returns the name of the tuned sink's series with which a series is compared.
    """
    rows = [
        (*compared(one, find(series, reference(one), one.codec), digits=2), *_split(one))
        for one in series
    ]
    columns = ("sink", "codec", "M rec/s", "min - max", "to JVM sink", "CPU us/rec", "to JVM sink")
    more = ("of that JVM", "Python", "worker MiB", "workers MiB", "JVM MiB")
    return Table(title, (*columns, *more), rows, notes(about, series))


def _split(one: Series) -> tuple[str, ...]:
    """Return the CPU use of the JVM and of the Python workers, and the memory of both."""
    if not one.samples:
        return ("-",) * 5
    return (
        f"{one.jvm_cpu_us:.2f}",
        f"{one.workers_cpu_us:.2f}",
        *(f"{each:.0f}" if each else "-" for each in (one.peak_mib, one.workers_peak_mib)),
        f"{one.jvm_peak_mib:.0f}",
    )


WARM_UP = 20_000
"""Number of events of the warm-up write before each measured write."""
FIRST_WARM_UP = 400_000
"""Maximum events of the first write of each kind, during which the JVM compiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """Number of events per write, and number of rounds."""

    records: int
    rounds: int


def measure(bootstrap_servers: str, plan: SparkPlan, log: Callable[[str], None]) -> SparkFigures:
    """Run all rounds of all contestants and codecs."""
    return SparkFigures(measure_all(present(log), bootstrap_servers, plan, log))


def measure_all(
    contestants: Sequence[SparkContestant],
    bootstrap_servers: str,
    plan: SparkPlan,
    log: Callable[[str], None],
) -> list[Series]:
    """Run all rounds of these contestants in turn."""
    log(f"spark: generating {plan.records:,} records")
    first = min(plan.records, FIRST_WARM_UP)
    for contestant in contestants:
        for records in (plan.records, WARM_UP, first):
            contestant.source(records)
    configurations = [
        (contestant, Series(contestant.name, codec))
        for codec in CODECS
        for contestant in contestants
        if codec in contestant.codecs
    ]
    with ExitStack() as stack:
        sparks = {
            each: stack.enter_context(WarmSpark(python=each[1]))
            for each in dict.fromkeys(contestant.spark for contestant in contestants)
        }
        for contestant, series in configurations:
            log(f"spark: warming up {contestant.name}, {series.codec}")
            spark = sparks[contestant.spark]
            warm_up = partial(write, spark, contestant, bootstrap_servers, codec=series.codec)
            attempt(partial(warm_up, first), series.failures, log)
        for number in range(plan.rounds):
            for contestant, series in configurations:
                what = f"{contestant.name}, {series.codec}"
                log(f"spark, round {number + 1} of {plan.rounds}: {what}")
                spark = sparks[contestant.spark]
                run = partial(write, spark, contestant, bootstrap_servers, codec=series.codec)
                if attempt(partial(run, WARM_UP), series.failures, log) is not None:
                    series.add(partial(run, plan.records), log)
    return [series for _, series in configurations]


def write(
    spark: WarmSpark,
    contestant: SparkContestant,
    bootstrap_servers: str,
    records: int,
    *,
    codec: str = "none",
    partitions: int = PARTITIONS,
) -> Sample:
    """Write once into a new topic, and check the record count."""
    expected = contestant.expected(records)
    with fresh_topic(bootstrap_servers, expected, partitions=partitions) as topic:
        return spark.order(contestant.order(topic, bootstrap_servers, records, codec))
