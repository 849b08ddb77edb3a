"""Writes to more and more partitions, and to one and to many topics."""

from collections.abc import Sequence

from tools.benchmarks import tables
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.results import Series, find, ratio
from tools.benchmarks.spark.contestants import (
    CONFLUENT,
    DEFAULT_JVM,
    OURS,
    SINK,
    TUNED_JVM,
    SparkWrite,
    keyed,
)
from tools.benchmarks.spark.writes import JVM_CPU, PYTHON_CPU, SINK_COLUMN, measure_in_turn

KEPT = 0.7
"""Minimum share of its rate at the first point of a sweep that a write keeps at the last point."""
PARTITION_COUNTS = (8, 100, 1_000)
_JVM_SHARE = 5
"""Writes of the JVM sinks to many partitions are 20 times slower, and have fewer records."""
TOPIC_COUNTS = (1, 100)


def _sweep_figures(
    title: str, axis: str, about: str, series: Sequence[Series], target: tables.Target
) -> tables.Figures:
    """Return one table of writes at several points. Ratios are to a contestant's first point."""

    def first(result: Series) -> Series:
        return next(candidate for candidate in series if candidate.contestant == result.contestant)

    to_first = tables.relative("vs. first row", first)
    columns = (tables.RATE, tables.SPREAD, to_first, tables.CPU, JVM_CPU, PYTHON_CPU)
    names = (SINK_COLUMN, tables.fact("point", axis))
    table = tables.series_table(title, names, columns, series, about)
    return tables.Figures([table], [target], [result.to_dict() for result in series])


def kept(series: Sequence[Series], name: str, points: Sequence[int]) -> float:
    """Return the rate at the last point as a fraction of the rate at the first point."""
    return ratio(find(series, name, point=points[-1]), find(series, name, point=points[0]))


def measure_partitions(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure keyed writes to more and more partitions.

    With many partitions, batches of 1 MiB exceed Java's default `buffer.memory`.
    """
    fewer = plan.records // _JVM_SHARE
    writes = [
        SparkWrite(
            contestant=contestant.keyed(),
            records=fewer if contestant.writer == TUNED_JVM.writer else plan.records,
            partitions=point,
            facts={"point": point},
        )
        for contestant in (SINK, DEFAULT_JVM, TUNED_JVM, CONFLUENT)
        for point in PARTITION_COUNTS
    ]
    about = f"{plan.records:,} events per write, {fewer:,} with Spark's kafka."
    return partition_figures(measure_in_turn("partitions", bench, plan, writes), about)


def partition_figures(series: Sequence[Series], about: str = "") -> tables.Figures:
    """Return one table, and the target for the most partitions."""
    title = "Partitions: keyed 131-byte JSON events, one topic, local[1], warm session"
    what = f"Spark, 8 to {PARTITION_COUNTS[-1]:,} partitions: share of the rate kept"
    target = tables.at_least(what, KEPT, "x", kept(series, keyed(OURS), PARTITION_COUNTS))
    return _sweep_figures(title, "partitions", about, series, target)


def measure_topics(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure writes to one and to many topics, which a column selects."""
    writes = [
        SparkWrite(
            contestant=contestant, records=plan.records, topics=point, facts={"point": point}
        )
        for contestant in (SINK, TUNED_JVM)
        for point in TOPIC_COUNTS
    ]
    about = f"{plan.records:,} events per write; each topic has one partition."
    return topic_figures(measure_in_turn("topics", bench, plan, writes), about)


def topic_figures(series: Sequence[Series], about: str = "") -> tables.Figures:
    """Return one table, and the target for many topics."""
    title = "Topics: 131-byte JSON events, a topic column, local[1], warm session"
    what = f"Spark, {TOPIC_COUNTS[0]:,} to {TOPIC_COUNTS[1]:,} topics: share of the rate kept"
    target = tables.at_least(what, KEPT, "x", kept(series, OURS, TOPIC_COUNTS))
    return _sweep_figures(title, "topics", about, series, target)
