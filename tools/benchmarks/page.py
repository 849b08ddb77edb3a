"""Write the tables and charts of a run to a draft folder and to docs/benchmarks.md.

`python -m tools.benchmarks.page [FOLDER]` publishes the draft of the last run.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from spark_kafka_sink.plots.panels import BAD, GOOD, PALE, SECOND, done, dress, legend, log_numbers
from tools.benchmarks.core.contestants import EVENTS
from tools.docs.pages import DOCS, write_block
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from tools.benchmarks.results import Results


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Found = Mapping[str, Any]

_COLORS = (GOOD, BAD, SECOND, PALE)
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Chart:
    """File name, caption, required part, and drawing function of a chart."""

    name: str
    shows: str
    part: str
    draw: Callable[[Any], Figure]


def draw_charts(figures: Found, folder: Path) -> list[Chart]:
    """Draw the measured parts as SVG files and return the names of the drawn charts."""
    drawn = [chart for chart in CHARTS if chart.part in figures["parts"]]
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "benchmarks"}):
        for chart in drawn:
            picture = chart.draw(figures["parts"][chart.part])
            picture.savefig(folder / chart.name, format="svg", metadata={"Date": None})
    return drawn


def _spark(series: Sequence[Found]) -> Figure:
    measured = _measured(series)[::-1]
    names = [_name(one) for one in measured]
    figure, (rates, costs) = plt.subplots(1, 2, sharey=True, figsize=(10, 0.3 * len(names) + 1.4))
    _rates(rates, names, measured)
    jvm = [one["median_jvm_cpu_us_per_record"] for one in measured]
    python = [one["median_workers_cpu_us_per_record"] for one in measured]
    costs.barh(names, jvm, color=PALE, label="JVM")
    costs.barh(names, python, left=jvm, color=SECOND, label="Python workers")
    dress(costs, "Client CPU", x="us a record")
    costs.legend(
        loc="lower right", bbox_to_anchor=(1, 0.99), ncols=2, fontsize="small", frameon=False
    )
    return done(figure, "Spark: 131-byte JSON events from Parquet, local[1]")


def _core(payloads: Mapping[str, Sequence[Found]]) -> Figure:
    measured = _measured(payloads[EVENTS])[::-1]
    names = [_name(one) for one in measured]
    figure, (rates, costs) = plt.subplots(1, 2, sharey=True, figsize=(10, 0.3 * len(names) + 1.4))
    _rates(rates, names, measured)
    cpu = [one["median_cpu_us_per_record"] for one in measured]
    costs.barh(names, cpu, color=_colors(names))
    dress(costs, "Client CPU", x="us a record")
    return done(figure, "The core: 131-byte JSON events")


def _sizes(series: Sequence[Found]) -> Figure:
    figure, axes = plt.subplots(figsize=(7, 3.6))
    lines = _lines(series, "value_bytes", lambda one: one["value_bytes"] / _MILLION)
    _curves(axes, lines)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    dress(axes, "Values of 10 B to 1 MB", x="bytes of a value", y="MB/s")
    return done(figure)


def _partitions(series: Sequence[Found]) -> Figure:
    figure, axes = plt.subplots(figsize=(7, 3.6))
    _curves(axes, _lines(series, "point", lambda _: 1 / _MILLION))
    axes.set_ylim(bottom=0)
    dress(axes, "Keyed events to more partitions", x="partitions", y="M rec/s")
    legend(axes)
    return done(figure)


CHARTS = (
    Chart("spark.svg", "Spark writes: rates, and CPU of the JVM and of Python", "spark", _spark),
    Chart("core.svg", "The core: rates and CPU compared with librdkafka and Java", "core", _core),
    Chart("sizes.svg", "MB/s of values from 10 B to 1 MB", "sizes", _sizes),
    Chart("partitions.svg", "Rates with 8, 100 and 1,000 partitions", "partitions", _partitions),
)


def _measured(series: Sequence[Found]) -> list[Found]:
    return [one for one in series if one["samples"]]


def _name(one: Found) -> str:
    return f"{one['contestant']}, {one['codec']}"


def _colors(names: Sequence[str]) -> list[str]:
    """Return bar colors; this project's producer has a separate color."""
    return [GOOD if name.startswith("kafkaprod") else PALE for name in names]


def _rates(axes: Axes, names: Sequence[str], measured: Sequence[Found]) -> None:
    """Draw medians as bars, with a line from the slowest to the fastest run."""
    medians = [one["median_records_per_s"] / _MILLION for one in measured]
    pairs = list(zip(medians, measured, strict=True))
    below = [middle - one["least_records_per_s"] / _MILLION for middle, one in pairs]
    above = [one["most_records_per_s"] / _MILLION - middle for middle, one in pairs]
    axes.barh(
        names, medians, color=_colors(names), xerr=[below, above], error_kw={"linewidth": 0.8}
    )
    dress(axes, "Rate", x="M rec/s")


def _lines(
    series: Sequence[Found], along: str, unit: Callable[[Found], float]
) -> dict[str, list[tuple[int, float, float, float]]]:
    """Draw a line per contestant with median, minimum and maximum at each point."""
    lines: dict[str, list[tuple[int, float, float, float]]] = {}
    for one in _measured(series):
        names = ("median", "least", "most")
        middle, low, high = (one[f"{each}_records_per_s"] * unit(one) for each in names)
        lines.setdefault(one["contestant"], []).append((one[along], middle, low, high))
    return lines


def _curves(axes: Axes, lines: Mapping[str, Sequence[tuple[int, float, float, float]]]) -> None:
    places = [point[0] for line in lines.values() for point in line]
    for (name, line), color in zip(lines.items(), _COLORS, strict=False):
        where, median, least, most = zip(*line, strict=True)
        axes.plot(where, median, marker="o", color=color, label=name)
        axes.fill_between(where, least, most, color=color, alpha=0.15, linewidth=0)
    if places:
        log_numbers(axes, min(places), max(places))
    axes.legend(loc="best", fontsize="small")


DRAFT = ROOT / "build" / "benchmarks"
FIGURES, TABLES = "figures.json", "figures.md"
_PUBLISHED = DOCS / "benchmarks"
_BLOCK = "figures"


def write_draft(results: Results, folder: Path) -> None:
    """Write the charts and the tables from the samples in the folder."""
    tables = results.markdown()
    (folder / TABLES).write_text(tables)
    for earlier in folder.glob("*.svg"):
        earlier.unlink()
    charts = draw_charts(json.loads((folder / FIGURES).read_text()), folder)
    pictures = (f"![{chart.shows}]({_PUBLISHED.name}/{chart.name})\n\n" for chart in charts)
    samples = f"\n[Every sample as JSON]({_PUBLISHED.name}/{FIGURES})\n"
    (folder / TABLES).write_text("".join([*pictures, tables, samples]))


def publish(folder: Path) -> None:
    """Copy a draft's tables into the page, and its samples and charts next to the page."""
    _PUBLISHED.mkdir(exist_ok=True)
    for earlier in _PUBLISHED.glob("*.svg"):
        earlier.unlink()
    for source in (folder / FIGURES, *sorted(folder.glob("*.svg"))):
        shutil.copy(source, _PUBLISHED / source.name)
    write_block(_BLOCK, (folder / TABLES).read_text())


if __name__ == "__main__":
    publish(Path(sys.argv[1]) if sys.argv[1:] else DRAFT)
