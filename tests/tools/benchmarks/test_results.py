"""A run of parts: what fails is told, what was missed is named, and the others go on."""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING

import pytest

from tests.tools.benchmarks.facts import MACHINE
from tools.benchmarks.core.contestants import LIBRDKAFKA, OURS
from tools.benchmarks.core.encoder import EncoderFigures, EncoderResult
from tools.benchmarks.core.rates import SizeFigures
from tools.benchmarks.results import Results, Sample, Series, at_least, at_most, measure, summary
from tools.benchmarks.spark.child import Cpu
from tools.benchmarks.spark.contestants import JVM, NULL, keyed
from tools.benchmarks.spark.contestants import OURS as SINK
from tools.benchmarks.spark.first_write import WARM, FirstWriteFigures, Place, Writes
from tools.benchmarks.spark.rates import SparkFigures
from tools.benchmarks.spark.sweeps import Sweep, judge_arrow_batches, judge_partitions, judge_topics
from tools.benchmarks.suite import Part, Workbench

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.benchmarks.results import Target


def series(name: str, rate: float, codec: str = "none", **figures: float) -> Series:
    """One run of a million records."""
    sample = Sample(records=1_000_000, seconds=1e6 / rate, cpu_s=1e6 / rate, **figures)
    return Series(name, codec, [sample])


def test_a_part_that_fails_does_not_take_the_others_along() -> None:
    told: list[str] = []
    kept: list[list[str]] = []
    encoder = EncoderFigures(
        [EncoderResult(name="null keys", stages_ns={"plan": 1.0}, best=9e6, median=7e6)]
    )

    def fail(_: Workbench) -> EncoderFigures:
        raise ZeroDivisionError("no broker")

    parts = [Part("first", fail), Part("encoder", lambda _: encoder)]
    results = Results(MACHINE)
    measure(
        parts, Workbench(told.append), results, lambda now: kept.append([*now.to_dict()["parts"]])
    )
    assert kept == [[], ["encoder"]]
    assert [one.part for one in results.failed()] == ["first"]
    assert any("ZeroDivisionError: no broker" in table.markdown() for table in results.tables())
    assert "ZeroDivisionError" in json.loads(json.dumps(results.to_dict()))["failures"]["first"]
    assert any("no broker" in text for text in told)


def test_what_is_missed_is_named_below_the_targets() -> None:
    targets = [at_least("rate", 1.4, "x", 1.5), at_most("CPU", 0.75, "x", 0.9)]
    assert summary(targets) == "1 of 2 targets are met. Missed: CPU (0.90x)."
    assert summary(targets[:1]) == "1 of 1 targets are met."
    assert at_least("rate", 1.4, "x", None).verdict == "not measured"


def test_spark_is_judged_for_each_codec_and_kind() -> None:
    found = [
        series(SINK, 3e6, workers_cpu_s=0.15, peak_mib=200.0),
        series(JVM, 2e6),
        series(keyed(SINK), 2e6, workers_cpu_s=0.25, peak_mib=300.0),
        series(keyed(JVM), 2e6),
    ]
    figures = SparkFigures(found)
    verdicts = {target.what: target.met for target in figures.targets()}
    assert verdicts["Spark, null keys, none: rate relative to the tuned JVM sink's"] is True
    assert verdicts["Spark, null keys, none: CPU relative to the tuned JVM sink's"] is True
    assert verdicts["Spark, null keys, none: CPU of the Python workers"] is True
    assert verdicts["Spark, keyed, none: rate relative to the tuned JVM sink's"] is False
    assert verdicts["Spark, keyed, none: CPU of the Python workers"] is False
    assert verdicts["Spark, keyed, lz4: rate relative to the tuned JVM sink's"] is None
    assert verdicts["Spark 4.1, keyed, none: CPU of the Python workers"] is None
    assert verdicts["Spark: peak RSS of the worker"] is False
    (table,) = figures.tables()
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [row[4] for row in table.rows] == ["1.50x", "1.00x", "1.00x", "1.00x"]


def sweep(judge: Callable[[Sweep], list[Target]], rates: dict[tuple[str, int], float]) -> Sweep:
    """A point without a rate failed."""
    found = {
        (name, point): series(name, rate) if rate else Series(name, "none", failures=["no broker"])
        for (name, point), rate in rates.items()
    }
    return Sweep(title="", axis="points", about="", judge=judge, series=found)


@pytest.mark.parametrize(("rate", "met"), [(7e5, True), (6e5, False), (0, None)])
def test_partitions_topics_and_batches_keep_a_share_of_the_rate(
    rate: float, met: bool | None
) -> None:
    sweeps = [
        sweep(judge_partitions, {(keyed(SINK), 8): 1e6, (keyed(SINK), 1_000): rate}),
        sweep(judge_topics, {(SINK, 1): 1e6, (SINK, 100): rate}),
        sweep(
            judge_arrow_batches,
            {(SINK, 10_000): 1e6, (SINK, 16): rate / 2, (NULL, 10_000): 2e6, (NULL, 16): 1e6},
        ),
    ]
    for one in sweeps:
        (target,), (table,) = one.targets(), one.tables()
        assert target.met is met
        assert all(len(row) == len(table.columns) for row in table.rows)


def writes(name: str, first_s: float, second_s: float) -> Writes:
    """One session; an infinite time means that it failed."""
    if first_s == inf:
        return Writes(Series(name, "none", failures=["no broker"]), Series(name, "none"))
    first, second = (
        Series(name, "none", [Sample(records=20_000, seconds=seconds, cpu_s=1.0)])
        for seconds in (first_s, second_s)
    )
    return Writes(first, second)


@pytest.mark.parametrize(
    ("first_s", "warm_s", "second_s", "met"),
    [
        (1.8, 1.2, 0.45, [True, True, True]),
        (1.9, 1.3, 0.46, [False, False, False]),
        (inf, 1.2, 0.4, [None, True, None]),
    ],
)
def test_first_writes(
    first_s: float, warm_s: float, second_s: float, met: list[bool | None]
) -> None:
    measured = {SINK: (first_s, second_s), WARM: (warm_s, 0.3), JVM: (1.0, 0.2)}
    figures = FirstWriteFigures(
        {Place("4.1", 20_000, name): writes(name, *times) for name, times in measured.items()}
    )
    assert [target.met for target in figures.targets()] == met
    (table,) = figures.tables()
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert table.rows[-1][3:] == (
        *("1.00", "1.00 - 1.00", "1.00x", "1.00", "0.00"),
        *("0.20", "0.20 - 0.20", "1.00x"),
    )
    assert [each["write"] for each in figures.to_dict()] == [1, 2] * 3


def test_sizes_are_judged_where_the_core_is_worst() -> None:
    rates = {
        (OURS, 10): 3e6,
        (LIBRDKAFKA, 10): 1e6,
        (OURS, 1_000_000): 900,
        (LIBRDKAFKA, 1_000_000): 1_000,
    }
    figures = SizeFigures({key: series(key[0], rate) for key, rate in rates.items()})
    (target,), (table,) = figures.targets(), figures.tables()
    assert (target.figure, target.met) == ("0.90x at 1,000,000 B", False)
    assert [row[2] for row in table.rows] == ["30", "10", "900", "1,000"]


def test_a_worker_that_spark_ended_takes_nothing_off_the_others() -> None:
    start = Cpu(driver=1.0, jvm=10.0, python={1: 5.0, 2: 3.0}, reaped=0.0)
    new = {1: 6.0, 3: 0.5}
    wanted = {"jvm_cpu_s": 2.0, "workers_cpu_s": 1.5, "cpu_s": 4.0}
    assert Cpu(driver=1.5, jvm=12.0, python=new, reaped=0.0).since(start) == wanted
    assert Cpu(driver=1.5, jvm=12.0, python=new, reaped=3.0).since(start) == wanted
    used = Cpu(driver=1.5, jvm=12.0, python=new, reaped=3.25).since(start)
    assert used["workers_cpu_s"] == 1.75
