"""Runs report failed parts and missed targets, and continue with other parts."""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from tools.benchmarks import page
from tools.benchmarks.__main__ import run_parts
from tools.benchmarks.core.contestants import LIBRDKAFKA, OURS
from tools.benchmarks.core.encoders import record_figures
from tools.benchmarks.core.rates import size_figures
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.results import Sample, Series
from tools.benchmarks.spark.child import Cpu
from tools.benchmarks.spark.contestants import JVM, NULL, keyed
from tools.benchmarks.spark.contestants import OURS as SINK
from tools.benchmarks.spark.writes import (
    WARM,
    arrow_figures,
    first_write_figures,
    partition_figures,
    rate_figures,
    topic_figures,
)
from tools.benchmarks.tables import at_least, at_most, target_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tools.benchmarks.tables import Figures


def series(name: str, rate: float, facts: dict[str, Any] | None = None, **more: float) -> Series:
    """Return one run of a million records; a run without a rate failed."""
    if not rate:
        return Series(name, facts=facts or {}, failures=["no broker"])
    sample = Sample(records=1_000_000, seconds=1e6 / rate, cpu_s=1e6 / rate, **more)  # type: ignore[arg-type]
    return Series(name, facts=facts or {}, samples=[sample])


def test_failed_part_does_not_affect_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page.save, "__defaults__", (tmp_path,))
    messages: list[str] = []

    def fail(_: Workbench, plan: Plan) -> Figures:
        raise ZeroDivisionError(f"no broker for {plan.records} records")

    def encode(_: Workbench, plan: Plan) -> Figures:
        stages = {"plan": 1.0}
        return record_figures(
            [{"name": "null keys", "stages_ns": stages, "best": 9e6, "median": 7e6}]
        )

    found = page.empty()
    parts = {"first": (fail, Plan(5, 1)), "encoder": (encode, Plan(5, 1))}
    run_parts(parts, Workbench(messages.append), found)
    assert json.loads((tmp_path / page.FIGURES).read_text()) == json.loads(json.dumps(found))
    assert list(found["parts"]) == ["encoder"]
    assert "no broker for 5 records" in found["failures"]["first"]
    texts = [table.markdown() for table in page.tables(found)]
    assert any("ZeroDivisionError: no broker" in text for text in texts)
    assert any("null keys" in text for text in texts)
    assert any("no broker" in text for text in messages)


def test_missed_targets_are_listed() -> None:
    targets = [at_least("rate", 1.4, "x", 1.5), at_most("CPU", 0.75, "x", 0.9)]
    assert target_table(targets).notes == "1 of 2 targets are met. Missed: CPU (0.90x)."
    assert target_table(targets[:1]).notes == "1 of 1 targets are met."
    assert target_table([at_least("rate", 1.4, "x", None)]).rows[0][2:] == ("-", "not measured")


def test_spark_targets_for_each_codec_and_kind() -> None:
    found = [
        series(SINK, 3e6, workers_cpu_s=0.15, peak_mib=200.0),
        series(JVM, 2e6),
        series(keyed(SINK), 2e6, workers_cpu_s=0.25, peak_mib=300.0),
        series(keyed(JVM), 2e6),
    ]
    figures = rate_figures(found)
    verdicts = {target.what: target.met for target in figures.targets}
    assert verdicts["Spark, null keys, none: rate relative to the tuned JVM sink's"] is True
    assert verdicts["Spark, null keys, none: CPU relative to the tuned JVM sink's"] is True
    assert verdicts["Spark, null keys, none: CPU of the Python workers"] is True
    assert verdicts["Spark, keyed, none: rate relative to the tuned JVM sink's"] is False
    assert verdicts["Spark, keyed, none: CPU of the Python workers"] is False
    assert verdicts["Spark, keyed, lz4: rate relative to the tuned JVM sink's"] is None
    assert verdicts["Spark 4.1, keyed, none: CPU of the Python workers"] is None
    assert verdicts["Spark: peak RSS of the worker"] is False
    (table,) = figures.tables
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [row[4] for row in table.rows] == ["1.50x", "1.00x", "1.00x", "1.00x"]


@pytest.mark.parametrize(("rate", "met"), [(7e5, True), (6e5, False), (0, None)])
@pytest.mark.parametrize(
    ("judge", "name", "points"),
    [
        (partition_figures, keyed(SINK), (8, 1_000)),
        (topic_figures, SINK, (1, 100)),
        (arrow_figures, SINK, (10_000, 16)),
    ],
)
def test_targets_of_partitions_topics_and_batches(
    judge: Callable[[Sequence[Series]], Figures],
    name: str,
    points: tuple[int, int],
    rate: float,
    met: bool | None,
) -> None:
    found = [series(name, one, {"point": at}) for at, one in zip(points, (1e6, rate), strict=True)]
    if judge is arrow_figures:
        found += [series(NULL, 1e6, {"point": at}) for at in points]
    figures = judge(found)
    (target,), (table,) = figures.targets, figures.tables
    assert target.met is met
    assert all(len(row) == len(table.columns) for row in table.rows)


def writes(name: str, *seconds: float) -> list[Series]:
    """Return both writes of one session; an infinite time means failure."""
    facts = {"pyspark": "4.1", "records": 20_000}
    found = [Series(name, facts={**facts, "write": number}) for number in (1, 2)]
    for one, took in zip(found, seconds, strict=True):
        if seconds[0] != inf:
            one.samples.append(Sample(records=20_000, seconds=took, cpu_s=1.0))
    return found


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
    figures = first_write_figures(
        [*writes(SINK, first_s, second_s), *writes(WARM, warm_s, 0.3), *writes(JVM, 1.0, 0.2)]
    )
    assert [target.met for target in figures.targets] == met
    (table,) = figures.tables
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert table.rows[-1][3:] == (
        *("1.00", "1.00 - 1.00", "1.00x", "1.00", "0.00"),
        *("0.20", "0.20 - 0.20", "1.00x"),
    )
    assert [each["write"] for each in figures.samples] == [1, 2] * 3


def test_size_target_uses_the_worst_core() -> None:
    rates = {
        (OURS, 10): 3e6,
        (LIBRDKAFKA, 10): 1e6,
        (OURS, 1_000_000): 900,
        (LIBRDKAFKA, 1_000_000): 1_000,
    }
    figures = size_figures(
        [series(name, rate, {"value_bytes": size}) for (name, size), rate in rates.items()]
    )
    (target,), (table,) = figures.targets, figures.tables
    assert (target.figure, target.met) == ("0.90x at 1,000,000 B", False)
    assert [row[2] for row in table.rows] == ["30", "10", "900", "1,000"]


def test_worker_ended_by_spark_does_not_affect_others() -> None:
    start = Cpu(driver=1.0, jvm=10.0, python={1: 5.0, 2: 3.0}, reaped=0.0)
    new = {1: 6.0, 3: 0.5}
    expected = {"jvm_cpu_s": 2.0, "workers_cpu_s": 1.5, "cpu_s": 4.0}
    assert Cpu(driver=1.5, jvm=12.0, python=new, reaped=0.0).since(start) == expected
    assert Cpu(driver=1.5, jvm=12.0, python=new, reaped=3.0).since(start) == expected
    used = Cpu(driver=1.5, jvm=12.0, python=new, reaped=3.25).since(start)
    assert used["workers_cpu_s"] == 1.75
