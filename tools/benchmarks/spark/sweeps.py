"""Vary one property of a write: the number of partitions, of topics, or of rows per Arrow batch.

For partitions, each write runs twice, and the second run is measured. During the first run, the
broker creates the files and indexes of the topic, which takes longer than writing the records.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.payload import events_file
from tools.benchmarks.results import Series, Table, Target, at_least, attempt, notes, spread, times
from tools.benchmarks.spark.contestants import (
    ARROW_ROWS,
    CONFLUENT,
    DEFAULT_JVM,
    FLIGHT,
    NULL_SINK,
    SINK,
    SMALL_ROWS,
    TUNED_JVM,
    WarmSpark,
)
from tools.benchmarks.spark.rates import FIRST_WARM_UP, WARM_UP, SparkPlan, write
from tools.benchmarks.topics import fresh_topic, fresh_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tools.benchmarks.results import Sample, Target
    from tools.benchmarks.spark.contestants import SparkContestant


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A contestant at one value of the varied property, and the number of records to write."""

    contestant: SparkContestant
    point: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The series by contestant and point, and the texts of the table."""

    title: str
    axis: str
    about: str
    judge: Callable[[Sweep], list[Target]]
    series: Mapping[tuple[str, int], Series] = field(default_factory=dict)

    def rate(self, contestant: str, point: int) -> float | None:
        """Return the median records per second, or None if not measured."""
        found = self.series.get((contestant, point))
        return found.rate if found and found.samples else None

    def kept(self, contestant: str, point: int, first: int) -> float | None:
        """Return the rate at a point as a fraction of the rate at `first`."""
        here, there = self.rate(contestant, point), self.rate(contestant, first)
        return here / there if here and there else None

    def tables(self) -> list[Table]:
        """Return one table. Ratios are relative to a contestant's first point."""
        columns = ("sink", self.axis, "M rec/s", "min - max", "to the first", "CPU us/rec")
        rows = [
            (name, f"{point:,}", *self._cells(name, one))
            for (name, point), one in self.series.items()
        ]
        about = notes(self.about, list(self.series.values()))
        return [Table(self.title, (*columns, "of that JVM", "Python"), rows, about)]

    def targets(self) -> list[Target]:
        """Return the targets that the part defines."""
        return self.judge(self)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
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
    configurations: list[Configuration],
    one_write: Callable[[WarmSpark, Configuration], Sample],
    bootstrap_servers: str,
    rounds: int,
    log: Callable[[str], None],
) -> dict[tuple[str, int], Series]:
    """Run all rounds, with the contestants in turn, each with its own warm Spark."""
    found = {
        (configuration.contestant.name, configuration.point): Series(
            configuration.contestant.name, "none"
        )
        for configuration in configurations
    }
    first = {
        configuration.contestant.name: configuration for configuration in reversed(configurations)
    }
    with ExitStack() as stack:
        sparks = {name: stack.enter_context(WarmSpark()) for name in first}
        for name, configuration in first.items():
            log(f"warming up {name}")
            warm_up = partial(write, sparks[name], configuration.contestant, bootstrap_servers)
            series = found[name, configuration.point]
            attempt(partial(warm_up, FIRST_WARM_UP), series.failures, log)
        for number in range(rounds):
            for configuration in configurations:
                name = configuration.contestant.name
                log(f"round {number + 1} of {rounds}: {name}, {configuration.point:,}")
                found[name, configuration.point].add(
                    partial(one_write, sparks[name], configuration), log
                )
    return found


PARTITION_COUNTS = (8, 100, 1_000)
KEPT_WITH_PARTITIONS = 0.7
"""Minimum ratio of the rate with the most partitions to the rate with the fewest partitions."""
_OURS, _CONFLUENT = SINK.keyed(), CONFLUENT.keyed()
_JVMS = (DEFAULT_JVM.keyed(), TUNED_JVM.keyed())
"""With many partitions, batches of 1 MiB exceed Java's default `buffer.memory`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsPlan:
    """Events per write, fewer events for the JVM sink (20 times slower), and rounds."""

    records: int
    jvm_records: int
    rounds: int


def measure_partitions(
    bootstrap_servers: str, plan: PartitionsPlan, log: Callable[[str], None]
) -> Sweep:
    """Run all rounds."""
    records = {each.name: plan.records for each in (_OURS, _CONFLUENT)}
    records |= {each.name: plan.jvm_records for each in _JVMS}
    configurations = [
        Configuration(contestant=each, point=point, records=records[each.name])
        for each in (_OURS, *_JVMS, _CONFLUENT)
        for point in PARTITION_COUNTS
    ]
    for size in records.values():
        events_file(size)
    one_write = partial(_write_to_partitions, bootstrap_servers)
    return Sweep(
        title="Partitions: keyed 131-byte JSON events, one topic, local[1], warm session",
        axis="partitions",
        about=f"{plan.records:,} events per write, {plan.jvm_records:,} with Spark's kafka.",
        judge=judge_partitions,
        series=run(configurations, one_write, bootstrap_servers, plan.rounds, log),
    )


def _write_to_partitions(
    bootstrap_servers: str, spark: WarmSpark, configuration: Configuration
) -> Sample:
    expected = 2 * configuration.records
    with fresh_topic(bootstrap_servers, expected, partitions=configuration.point) as topic:
        spark.order(configuration.contestant.order(topic, bootstrap_servers, configuration.records))
        return spark.order(
            configuration.contestant.order(topic, bootstrap_servers, configuration.records)
        )


def judge_partitions(found: Sweep) -> list[Target]:
    """Return the targets for many partitions."""
    least, most = PARTITION_COUNTS[0], PARTITION_COUNTS[-1]
    what = f"Spark, {least:,} to {most:,} partitions: share of the rate kept"
    return [at_least(what, KEPT_WITH_PARTITIONS, "x", found.kept(_OURS.name, most, least))]


TOPIC_COUNTS = (1, 100)
KEPT_WITH_TOPICS = 0.7
"""Minimum ratio to the rate with one topic."""


def measure_topics(bootstrap_servers: str, plan: SparkPlan, log: Callable[[str], None]) -> Sweep:
    """Run all rounds."""
    for size in (WARM_UP, plan.records):
        events_file(size)
    configurations = [
        Configuration(contestant=each, point=point, records=plan.records)
        for each in (SINK, TUNED_JVM)
        for point in TOPIC_COUNTS
    ]
    one_write = partial(_write_to_topics, bootstrap_servers)
    return Sweep(
        title="Topics: 131-byte JSON events, a topic column, local[1], warm session",
        axis="topics",
        about=f"{plan.records:,} events per write; each topic has one partition.",
        judge=judge_topics,
        series=run(configurations, one_write, bootstrap_servers, plan.rounds, log),
    )


def _write_to_topics(
    bootstrap_servers: str, spark: WarmSpark, configuration: Configuration
) -> Sample:
    with fresh_topics(
        bootstrap_servers, WARM_UP + configuration.records, configuration.point
    ) as names:
        prefix = names[0].removesuffix("0")
        column = f"concat('{prefix}', cast({FLIGHT} as int) % {configuration.point})"
        contestant = replace(configuration.contestant, columns={"topic": column})
        spark.order(contestant.order("", bootstrap_servers, WARM_UP))
        return spark.order(contestant.order("", bootstrap_servers, configuration.records))


def judge_topics(found: Sweep) -> list[Target]:
    """Return the targets for many topics."""
    one, many = TOPIC_COUNTS
    what = f"Spark, {one} to {many} topics: share of the rate kept"
    return [at_least(what, KEPT_WITH_TOPICS, "x", found.kept(SINK.name, many, one))]


BATCH_ROWS = (10_000, 16)
KEPT_WITH_SHORT_BATCHES = 0.7
"""Minimum ratio to the share of the rate that the null Arrow sink retains."""


def measure_arrow_batches(
    bootstrap_servers: str, plan: SparkPlan, log: Callable[[str], None]
) -> Sweep:
    """Run all rounds."""
    events_file(plan.records)
    configurations = [
        Configuration(contestant=each, point=point, records=plan.records)
        for each in (SINK, NULL_SINK)
        for point in BATCH_ROWS
    ]
    one_write = partial(_write_arrow_batches, bootstrap_servers)
    return Sweep(
        title="Rows of an Arrow batch: 131-byte JSON events, local[1], warm session",
        axis="rows",
        about=f"{plan.records:,} events per write; the null Arrow sink shows the cost of Spark "
        f"itself.",
        judge=judge_arrow_batches,
        series=run(configurations, one_write, bootstrap_servers, plan.rounds, log),
    )


def _write_arrow_batches(
    bootstrap_servers: str, spark: WarmSpark, configuration: Configuration
) -> Sample:
    conf = {**SMALL_ROWS, ARROW_ROWS: str(configuration.point)}
    contestant = replace(configuration.contestant, conf=conf)
    return write(spark, contestant, bootstrap_servers, configuration.records)


def judge_arrow_batches(found: Sweep) -> list[Target]:
    """Return the targets for small Arrow batches."""
    many, few = BATCH_ROWS
    ours = found.kept(SINK.name, few, many)
    bare = found.kept(NULL_SINK.name, few, many)
    share = ours / bare if ours and bare else None
    figure = f"{share:.2f}x ({ours:.2f} to {bare:.2f})" if ours and bare else ""
    what = (
        f"Spark, {many:,} to {few:,} rows per Arrow batch: share of the rate kept, relative to the "
        "null Arrow sink's"
    )
    return [at_least(what, KEPT_WITH_SHORT_BATCHES, "x", share, figure)]
