"""Charts are drawn of what was measured, and the page shows those alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tests.tools.benchmarks.facts import MACHINE
from tools.benchmarks.core.contestants import EVENTS, LIBRDKAFKA, OURS, RANDOM
from tools.benchmarks.core.rates import SIZES, CoreFigures, SizeFigures
from tools.benchmarks.page import FIGURES, RATES, TABLES, comparison, merged, write_draft
from tools.benchmarks.results import Outcome, Results, Sample, Series
from tools.benchmarks.spark.contestants import JVM, keyed
from tools.benchmarks.spark.contestants import OURS as SINK
from tools.benchmarks.spark.first_write import NEWEST, FirstWriteFigures, Place, Writes
from tools.benchmarks.spark.rates import SparkFigures
from tools.benchmarks.spark.sweeps import Sweep, judge_partitions

if TYPE_CHECKING:
    from pathlib import Path

    from tools.benchmarks.suite import Figures

SAMPLES = [
    Sample(records=1_000, seconds=seconds, cpu_s=0.5, jvm_cpu_s=0.3, workers_cpu_s=0.2)
    for seconds in (0.5, 0.6, 0.7)
]


def series(name: str) -> Series:
    return Series(name, "none", SAMPLES)


def draft(folder: Path, parts: dict[str, Figures]) -> tuple[list[str], str]:
    """The charts that were drawn, and the page."""
    results = Results(MACHINE, [Outcome(name, one, "", 1.0) for name, one in parts.items()])
    (folder / FIGURES).write_text(json.dumps(results.to_dict()))
    write_draft(folder)
    charts = sorted(folder.glob("*.svg"))
    assert all(ET.fromstring(chart.read_text()).tag.endswith("svg") for chart in charts)
    return [chart.name for chart in charts], (folder / TABLES).read_text()


def test_each_part_with_a_chart_is_drawn(tmp_path: Path) -> None:
    failed = Series("Spark's kafka, defaults", "none", failures=["no broker"])
    points = {(name, point): series(name) for name in (SINK, keyed(JVM)) for point in (8, 1_000)}
    sizes = {(name, size): series(name) for name in (OURS, LIBRDKAFKA) for size in SIZES}
    names, page = draft(
        tmp_path,
        {
            "core": CoreFigures({RANDOM: [series(OURS)], EVENTS: [series(OURS)]}),
            "sizes": SizeFigures(sizes),
            "spark": SparkFigures([series(SINK), series(JVM), failed]),
            "partitions": Sweep(title="", axis="", about="", judge=judge_partitions, series=points),
        },
    )
    assert names == ["core.svg", "partitions.svg", RATES, "sizes.svg", "spark.svg"]
    assert [name for name in names if f"](benchmarks/{name})" not in page] == [RATES]
    assert "Python workers" in (tmp_path / "spark.svg").read_text()


def test_what_was_not_measured_has_no_chart_of_an_earlier_run(tmp_path: Path) -> None:
    (tmp_path / "spark.svg").write_text("<svg/>")
    names, page = draft(tmp_path, {"sizes": SizeFigures({(OURS, 10): series(OURS)})})
    assert names == ["sizes.svg"]
    assert "spark.svg" not in page


def figures(parts: dict[str, Figures], failed: str = "") -> dict[str, Any]:
    outcomes = [Outcome(name, one, "", 1.0) for name, one in parts.items()]
    if failed:
        outcomes.append(Outcome(failed, None, "ValueError: no broker", 1.0))
    return Results(MACHINE, outcomes).to_dict()


def test_parts_that_are_not_measured_again_keep_their_figures() -> None:
    first, second = SizeFigures({(OURS, 10): series(OURS)}), SparkFigures([series(SINK)])
    earlier = figures({"sizes": first, "spark": SparkFigures([])}, failed="core")
    found = merged(earlier, figures({"spark": second}))
    assert found["parts"] == {"sizes": first.to_dict(), "spark": second.to_dict()}
    assert list(found["failures"]) == ["core"]
    found = merged(found, figures({}, failed="spark"))
    assert list(found["tables"]) == ["sizes"]
    assert list(found["failures"]) == ["core", "spark"]


def test_the_comparison_has_the_figures_of_each_peer() -> None:
    writes = {Place(NEWEST, 20_000, SINK): Writes(series(SINK), series(SINK))}
    parts = {"spark": SparkFigures([series(SINK), series(keyed(JVM))])}
    found = figures({**parts, "first-write": FirstWriteFigures(writes)})
    rows = [line.split(" | ") for line in comparison(found).splitlines()]
    assert rows[2][1:] == ["0.00, 500.00 µs", "-", "- |"]
    assert rows[3][1:] == ["-", "0.00, 500.00 µs", "- |"]
    assert rows[7][1] == "0.6 s, - after `warm_up`"
    assert len({len(row) for row in rows[2:]}) == 1
