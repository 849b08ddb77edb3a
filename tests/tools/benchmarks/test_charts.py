"""Charts exist only for measured parts, and the page contains only those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tools.benchmarks.core.contestants import LIBRDKAFKA, OURS
from tools.benchmarks.core.rates import SIZES
from tools.benchmarks.page import RATES, TABLES, comparison, empty, merged, save, write_draft
from tools.benchmarks.payload import EVENTS, RANDOM
from tools.benchmarks.results import Sample, Series
from tools.benchmarks.spark.contestants import JVM, keyed
from tools.benchmarks.spark.contestants import OURS as SINK
from tools.benchmarks.spark.writes import NEWEST

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = [
    Sample(records=1_000, seconds=seconds, cpu_s=0.5, jvm_cpu_s=0.3, workers_cpu_s=0.2)
    for seconds in (0.5, 0.6, 0.7)
]


def series(name: str, **facts: Any) -> dict[str, Any]:
    return Series(name, "none", facts, SAMPLES).to_dict()


def run(parts: dict[str, Any], failed: str = "") -> dict[str, Any]:
    """Return the results of a run."""
    found = empty()
    for name, samples in parts.items():
        found["parts"][name], found["tables"][name], found["targets"][name] = samples, [], []
    found["failures"] = {failed: "ValueError: no broker"} if failed else {}
    measured = [*parts, *found["failures"]]
    found["machines"] = dict.fromkeys(measured, "a machine")
    found["seconds"] = dict.fromkeys(measured, 1.0)
    return found


def draft(folder: Path, parts: dict[str, Any]) -> tuple[list[str], str]:
    """Return the drawn charts and the page."""
    save(run(parts), folder)
    write_draft(folder)
    charts = sorted(folder.glob("*.svg"))
    assert all(ET.fromstring(chart.read_text()).tag.endswith("svg") for chart in charts)
    return [chart.name for chart in charts], (folder / TABLES).read_text()


def test_charts_of_all_parts(tmp_path: Path) -> None:
    failed = Series("Spark's kafka, defaults", failures=["no broker"]).to_dict()
    names, page = draft(
        tmp_path,
        {
            "core": {RANDOM: [series(OURS)], EVENTS: [series(OURS)]},
            "sizes": [
                series(name, value_bytes=size) for name in (OURS, LIBRDKAFKA) for size in SIZES
            ],
            "spark": [series(SINK), series(JVM), failed],
            "partitions": [
                series(name, point=point) for name in (SINK, keyed(JVM)) for point in (8, 1_000)
            ],
        },
    )
    assert names == ["core.svg", "partitions.svg", RATES, "sizes.svg", "spark.svg"]
    assert [name for name in names if f"](benchmarks/{name})" not in page] == [RATES]
    assert "Python workers" in (tmp_path / "spark.svg").read_text()


def test_no_outdated_charts(tmp_path: Path) -> None:
    (tmp_path / "spark.svg").write_text("<svg/>")
    names, page = draft(tmp_path, {"sizes": [series(OURS, value_bytes=10)]})
    assert names == ["sizes.svg"]
    assert "spark.svg" not in page


def test_parts_not_measured_again_keep_their_figures() -> None:
    first, second = [series(OURS, value_bytes=10)], [series(SINK)]
    earlier = run({"sizes": first, "spark": []}, failed="core")
    found = merged(earlier, run({"spark": second}))
    assert found["parts"] == {"sizes": first, "spark": second}
    assert list(found["failures"]) == ["core"]
    found = merged(found, run({}, failed="spark"))
    assert list(found["tables"]) == ["sizes"]
    assert list(found["failures"]) == ["core", "spark"]


def test_comparison_contains_figures_of_each_peer() -> None:
    first = series(SINK, pyspark=NEWEST, records=20_000, write=1)
    found = run({"spark": [series(SINK), series(keyed(JVM))], "first-write": [first]})
    rows = [line.split(" | ") for line in comparison(found).splitlines()]
    assert rows[2][1:] == ["0.00, 500.00 µs", "-", "- |"]
    assert rows[3][1:] == ["-", "0.00, 500.00 µs", "- |"]
    assert rows[7][1] == "0.6 s, - after `warm_up`"
    assert len({len(row) for row in rows[2:]}) == 1
