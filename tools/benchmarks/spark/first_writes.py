"""The first and the second write of a session."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from statistics import median
from typing import Any

from tools.benchmarks import tables
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.payload import events_file
from tools.benchmarks.results import Sample, Series, find, ratio
from tools.benchmarks.spark.contestants import (
    JVM,
    NULL_SINK,
    OURS,
    PYTHON_41,
    SINK,
    TUNED_JVM,
    WRITE,
    SparkWrite,
    WarmSpark,
)
from tools.benchmarks.spark.writes import SINK_COLUMN
from tools.support.jars import SPARK_SINK

WARM = f"{OURS} after warm_up(spark)"
NEWEST, OLDEST = version("pyspark"), "4.1"
"""Releases of PySpark in this environment and in `PYTHON_41`."""
FIRST = {OURS: 1.8, WARM: 1.2, WRITE.name: 1.8}
"""Maximum ratios of a first write to a first write of Spark's own sink."""
SECOND_S = 0.45
"""Maximum time of the second write of `SECOND_RECORDS` records with PySpark 4.1."""
SECOND_RECORDS = 20_000
_FIRST_SINKS = (SINK, WRITE, NULL_SINK, TUNED_JVM, replace(SINK, name=WARM))


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
        (SINK_COLUMN, tables.fact("pyspark", "pyspark"), tables.fact("records", "rows")),
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
