"""Compare the sink with its peers: whole Spark writes from Parquet to a real Kafka, `local[1]`.

There are four comparisons: of all peers with all codecs; of `value.format` with `to_json` and
`to_avro`; of writes to more partitions or topics; and of the first writes of a session. All other
measured writes follow a small write of the same kind, so that the workers are already running.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any

from tools.benchmarks import tables
from tools.benchmarks.core.encoders import measure_formats
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.payload import FLAT, NESTED, events_file, orders_file
from tools.benchmarks.results import Sample, Series, find, ratio
from tools.benchmarks.spark.contestants import (
    CODECS,
    CONFLUENT,
    CONTESTANTS,
    DEFAULT_JVM,
    JVM,
    NULL_SINK,
    OURS,
    PYTHON_41,
    SINK,
    SINK_41,
    TUNED_JVM,
    WRITE,
    SparkContestant,
    SparkWrite,
    WarmSpark,
    keyed,
    measure_writes,
)
from tools.support.jars import SPARK_SINK

RATES = {"none": (1.2, 1.3), "lz4": (1.2, 1.3), "zstd": (1.5, 1.5)}
"""Minimum ratios of the rate to the tuned JVM sink's rate, with null keys and with keys."""
CPU_SHARE = 0.75
"""Maximum ratio of the CPU per record to the tuned JVM sink's."""
PYTHON_US, PYTHON_US_41 = 0.2, 0.25
"""Maximum CPU microseconds of the Python workers per uncompressed record. The second limit is for
pyspark 4.1.
"""
WORKER_MIB = 200 + 64
"""Maximum peak RSS of a worker: 200 MB plus the default buffer.memory."""
_SINK = tables.contestant("sink")
_JVM_CPU = ("in the JVM", lambda result: f"{result.us('jvm_cpu_s'):.2f}")
_PYTHON_CPU = ("in Python", lambda result: f"{result.us('workers_cpu_s'):.2f}")
FORMAT_RATES = {FLAT: 1.5, NESTED: 1.3}
"""Minimum ratio of the rate to the tuned JVM sink's rate."""
FORMAT_CPU_SHARE = 0.55
REGISTRY_SHARE = 1.05
"""Maximum ratio of CPU with a registry to CPU without a registry; 5% is run-to-run noise."""
_FORMATS = ("json", "avro")
_CONFLUENT = "avro-confluent"
KEPT = 0.7
"""Minimum share of its rate at the first point of a sweep that a write keeps at the last point."""
PARTITION_COUNTS = (8, 100, 1_000)
_JVM_SHARE = 5
"""Writes of the JVM sinks to many partitions are 20 times slower, and have fewer records."""
TOPIC_COUNTS = (1, 100)
WARM = f"{OURS} after warm_up(spark)"
NEWEST, OLDEST = version("pyspark"), "4.1"
"""Releases of PySpark in this environment and in `PYTHON_41`."""
FIRST = {OURS: 1.8, WARM: 1.2, WRITE.name: 1.8}
"""Maximum ratios of a first write to a first write of Spark's own sink."""
SECOND_S = 0.45
"""Maximum time of the second write of `SECOND_RECORDS` records with PySpark 4.1."""
SECOND_RECORDS = 20_000
_FIRST_SINKS = (SINK, WRITE, NULL_SINK, TUNED_JVM, replace(SINK, name=WARM))


def _measure(what: str, bench: Workbench, plan: Plan, writes: Sequence[SparkWrite]) -> list[Series]:
    return measure_writes(what, bench.bootstrap_servers, plan.rounds, writes, bench.log)


def measure_rates(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure all contestants with all codecs."""
    writes = [
        SparkWrite(contestant=contestant, records=plan.records, codec=codec)
        for codec in CODECS
        for contestant in CONTESTANTS
        if codec in contestant.codecs
    ]
    return rate_figures(_measure("spark", bench, plan, writes))


def rate_figures(series: Sequence[Series]) -> tables.Figures:
    """Return one table, the targets relative to the tuned JVM sink, and limits for the workers."""

    def reference(result: Series) -> Series:
        return find(
            series, keyed(JVM) if result.contestant.endswith(keyed("")) else JVM, result.codec
        )

    targets: list[tables.Target] = []
    kinds = (("null keys", OURS, JVM), ("keyed", keyed(OURS), keyed(JVM)))
    for number, (kind, ours, theirs) in enumerate(kinds):
        for codec in CODECS:
            pair = find(series, ours, codec), find(series, theirs, codec)
            rate = RATES[codec][number]
            targets += against_jvm(f"Spark, {kind}, {codec}", pair, rate, CPU_SHARE)
        old = f"{SINK_41.name}{ours.removeprefix(OURS)}"
        for release, name, most in (("", ours, PYTHON_US), (" 4.1", old, PYTHON_US_41)):
            what = f"Spark{release}, {kind}, none: CPU of the Python workers"
            used = find(series, name).us("workers_cpu_s")
            targets.append(tables.at_most(what, most, " us/rec", used))
    peak = max(
        result.most("peak_mib") for result in series if result.contestant in {OURS, keyed(OURS)}
    )
    targets.append(tables.at_most("Spark: peak RSS of the worker", WORKER_MIB, " MiB", peak))
    title = "Spark: 131-byte JSON events from Parquet, local[1], warm session"
    table = spark_table(title, series, reference)
    return tables.Figures([table], targets, [result.to_dict() for result in series])


def against_jvm(
    what: str, pair: tuple[Series, Series], rate: float, cpu_share: float
) -> tuple[tables.Target, tables.Target]:
    """Return the targets for rate and CPU relative to the tuned JVM sink."""
    return (
        tables.rate_target(f"{what}: rate relative to the tuned JVM sink's", rate, pair),
        tables.cpu_target(f"{what}: CPU relative to the tuned JVM sink's", cpu_share, pair),
    )


def spark_table(
    title: str, series: Sequence[Series], reference: Callable[[Series], Series]
) -> tables.Table:
    """Return rates, CPU by process, and memory. Ratios are relative to Spark's tuned sink."""

    def mib(heading: str, name: str) -> tuple[str, Callable[[Series], str]]:
        return heading, lambda result: f"{result.most(name):.0f}" if result.most(name) else "-"

    figures = (
        *tables.compared("vs. JVM sink", reference),
        _JVM_CPU,
        _PYTHON_CPU,
        mib("worker MiB", "peak_mib"),
        mib("workers MiB", "workers_peak_mib"),
        mib("JVM MiB", "jvm_peak_mib"),
    )
    about = (
        "CPU is the total of the driver, the JVM and the Python workers, including reading; ratios "
        "are relative to the tuned JVM sink with the same codec and kind of records. The MiB "
        "columns show the peak RSS during a write: of the largest Python worker, of all workers "
        "(including idle ones), and of the JVM, which retains memory from earlier writes."
    )
    return tables.series_table(title, (_SINK, tables.CODEC), figures, series, about)


def with_format(format_: str, kind: str) -> str:
    """Return the name of the contestant with `value.format`."""
    return f"value.format={format_}, {kind}"


def converted(format_: str, kind: str, sink: SparkContestant = TUNED_JVM) -> str:
    """Return the name of the contestant with Spark's function and a sink."""
    return f"to_{format_}, {kind}, {sink.name}"


def format_contestants() -> list[SparkContestant]:
    """Return `value.format`, and Spark's functions with this sink and with Spark's, for all rows.

    Avro is also measured with a schema registry in memory.
    """
    contestants = []
    for kind in (FLAT, NESTED):
        source = partial(orders_file, kind)
        for format_ in _FORMATS:
            formats = {format_: {"value.format": format_}}
            if (format_, kind) == ("avro", FLAT):
                registry = {"schema.registry.url": "mock://benchmark"}
                formats[_CONFLUENT] = {"value.format": _CONFLUENT, **registry}
            ours = [
                replace(SINK, name=with_format(name, kind), options=options, source=source)
                for name, options in formats.items()
            ]
            contestants += [*ours, *(contestant.not_measured() for contestant in ours[:1])]
            select = (f"to_{format_}(struct(*)) value",)
            contestants += [
                replace(
                    contestant,
                    name=converted(format_, kind, contestant),
                    select=select,
                    source=source,
                )
                for contestant in (SINK, TUNED_JVM)
            ]
    return contestants


def measure_format_writes(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure the encoders alone, and then whole writes."""
    alone = measure_formats(bench, plan)
    writes = [
        SparkWrite(contestant=contestant, records=plan.records)
        for contestant in format_contestants()
    ]
    whole = format_figures(_measure("formats", bench, plan, writes))
    return tables.Figures(
        [*alone.tables, *whole.tables],
        [*alone.targets, *whole.targets],
        {"encoders": alone.samples, "writes": whole.samples},
    )


def format_figures(series: Sequence[Series]) -> tables.Figures:
    """Return one table, the targets relative to the tuned JVM sink, and the cost of a registry."""

    def reference(result: Series) -> Series:
        format_ = next(name for name in _FORMATS if name in result.contestant)
        return find(series, converted(format_, NESTED if NESTED in result.contestant else FLAT))

    targets: list[tables.Target] = []
    for kind, rate in FORMAT_RATES.items():
        for format_ in _FORMATS:
            pair = find(series, with_format(format_, kind)), find(series, converted(format_, kind))
            both = against_jvm(f"Spark, {format_}, {kind}", pair, rate, FORMAT_CPU_SHARE)
            targets += both if kind == FLAT else both[:1]
    pair = find(series, with_format(_CONFLUENT, FLAT)), find(series, with_format("avro", FLAT))
    what = "Spark, Avro with a registry: CPU relative to Avro without"
    targets.append(tables.cpu_target(what, REGISTRY_SHARE, pair))
    title = "Formats: orders of ten fields from Parquet, local[1], warm session"
    table = spark_table(title, series, reference)
    return tables.Figures([table], targets, [result.to_dict() for result in series])


def _sweep_figures(
    title: str, axis: str, about: str, series: Sequence[Series], target: tables.Target
) -> tables.Figures:
    """Return one table of writes at several points. Ratios are to a contestant's first point."""

    def first(result: Series) -> Series:
        return next(candidate for candidate in series if candidate.contestant == result.contestant)

    to_first = tables.relative("vs. first row", first)
    columns = (tables.RATE, tables.SPREAD, to_first, tables.CPU, _JVM_CPU, _PYTHON_CPU)
    names = (_SINK, tables.fact("point", axis))
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
    return partition_figures(_measure("partitions", bench, plan, writes), about)


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
    return topic_figures(_measure("topics", bench, plan, writes), about)


def topic_figures(series: Sequence[Series], about: str = "") -> tables.Figures:
    """Return one table, and the target for many topics."""
    title = "Topics: 131-byte JSON events, a topic column, local[1], warm session"
    what = f"Spark, {TOPIC_COUNTS[0]:,} to {TOPIC_COUNTS[1]:,} topics: share of the rate kept"
    target = tables.at_least(what, KEPT, "x", kept(series, OURS, TOPIC_COUNTS))
    return _sweep_figures(title, "topics", about, series, target)


def measure_first_writes(bench: Workbench, plan: Plan) -> tables.Figures:
    """Write twice in new sessions, after one query in the JVM, with the newest PySpark and 4.1."""
    pythons = {NEWEST: sys.executable, OLDEST: str(PYTHON_41)}
    sessions = []
    for records in (SECOND_RECORDS, plan.records):
        for release, python in pythons.items():
            for sink in _FIRST_SINKS:
                facts = {"pyspark": release, "records": records}
                pair = [Series(sink.name, facts={**facts, "write": write}) for write in (1, 2)]
                write = SparkWrite(contestant=replace(sink, python=python), records=records)
                sessions.append((write, pair))
    for number in range(plan.rounds):
        for write, (first, second) in sessions[:: -1 if number % 2 else 1]:
            bench.log(f"first write, session {number + 1} of {plan.rounds}: {first.name}")
            for series, sample in zip(
                (first, second), _session(bench.bootstrap_servers, write), strict=True
            ):
                series.samples.append(sample)
    return first_write_figures([result for _, pair in sessions for result in pair])


def _session(bootstrap_servers: str, write: SparkWrite) -> list[Sample]:
    sink = write.contestant
    with WarmSpark(python=sink.python) as spark:
        spark.ask({"query": str(events_file(write.records)), "warm_up": sink.name == WARM})
        return [write.run(spark, bootstrap_servers, write.records, warm_up=0) for _ in range(2)]


def first_write_figures(series: Sequence[Series]) -> tables.Figures:
    """Return one table, limits for first writes relative to Spark's sink, and for second writes."""

    def other(result: Series, **changes: Any) -> Series:
        return find(series, changes.pop("sink", result.contestant), **{**result.facts, **changes})

    def columns(number: int, name: str) -> tuple[tables.Column, ...]:
        def seconds(result: Series) -> list[float]:
            return [sample.seconds for sample in other(result, write=number).samples]

        def to_jvm(result: Series) -> str:
            pair = other(result, write=number), other(result, write=number, sink=JVM)
            return f"{ratio(*pair, 'seconds'):.2f}x"

        return (
            (f"{name} write, s", lambda result: f"{median(seconds(result)):.2f}"),
            (
                "min - max",
                lambda result: f"{min(seconds(result)):.2f} - {max(seconds(result)):.2f}",
            ),
            ("vs. JVM sink", to_jvm),
        )

    cpu = ("CPU s", lambda result: f"{result.median('cpu_s'):.2f}")
    workers = ("in Python workers", lambda result: f"{result.median('workers_cpu_s'):.2f}")
    firsts = [result for result in series if result.facts["write"] == 1]
    table = tables.series_table(
        "First and second write of a new session",
        (_SINK, tables.fact("pyspark", "pyspark"), tables.fact("records", "rows")),
        (*columns(1, "first"), cpu, workers, *columns(2, "second")),
        firsts,
        "131-byte JSON events from Parquet, local[1]. The session has run one query over the same "
        "file. warm_up(spark) has ended before the clock starts. CPU is the total of the driver, "
        "the JVM and the Python workers during the first write. Spark's sink is "
        f"{SPARK_SINK.name} with both releases.",
    )
    targets = [
        _first_target(result, other(result, sink=JVM))
        for result in firsts
        if result.contestant in FIRST
    ]
    second = find(series, OURS, pyspark=OLDEST, records=SECOND_RECORDS, write=2)
    what = f"{OURS}, pyspark {OLDEST}: second write of {SECOND_RECORDS:,} rows"
    targets.append(tables.at_most(what, SECOND_S, " s", second.seconds))
    return tables.Figures([table], targets, [result.to_dict() for result in series])


def _first_target(ours: Series, theirs: Series) -> tables.Target:
    what = (
        f"{ours.contestant}, pyspark {ours.facts['pyspark']}: first write of "
        f"{ours.facts['records']:,} rows, time relative to Spark's own sink's"
    )
    return tables.time_target(what, FIRST[ours.contestant], (ours, theirs))
