"""Write the tables and charts of a run to a draft folder and to docs/benchmarks.md.

`python -m tools.benchmarks.page [FOLDER]` publishes the draft of the last run.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from spark_kafka_sink.plots.panels import BAD, GOOD, PALE, SECOND, done, dress, legend, log_numbers
from tools.benchmarks.core.contestants import EVENTS
from tools.benchmarks.results import Table, Target, failure_table, target_table
from tools.benchmarks.spark.contestants import (
    CONFLUENT,
    DEFAULT_JVM,
    SINK,
    TUNED_JVM,
    SparkContestant,
    keyed,
)
from tools.benchmarks.spark.first_write import NEWEST, SECOND_RECORDS, WARM
from tools.docs.pages import DOCS, write_block
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Found = Mapping[str, Any]

_COLORS = (GOOD, BAD, SECOND, PALE)
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: its file name, caption, required part, and drawing function."""

    name: str
    shows: str
    part: str
    draw: Callable[[Any], Figure]


def draw_charts(figures: Found, folder: Path) -> list[Chart]:
    """Draw the charts of the measured parts as SVG files, and return the names of these charts."""
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


def _rates_of_peers(series: Sequence[Found]) -> Figure:
    """Draw the rates of the README's comparison, with a group of bars per kind of record."""
    figures = {"parts": {"spark": series}}
    figure, axes = plt.subplots(figsize=(8, 3))
    width = 0.8 / len(_PEERS)
    for number, (peer, color) in enumerate(zip(_PEERS, (GOOD, PALE, SECOND), strict=True)):
        found = [_find(figures, "spark", peer, keys, codec=codec) for _, keys, codec in _KINDS]
        heights = [one["median_records_per_s"] / _MILLION if one else 0 for one in found]
        places = [kind + number * width for kind in range(len(_KINDS))]
        axes.bar(places, heights, width, color=color, label=peer.name)
    axes.set_xticks([kind + width for kind in range(len(_KINDS))], [name for name, *_ in _KINDS])
    dress(axes, "131-byte JSON events from Parquet to one Kafka, one core for Spark", y="M rec/s")
    legend(axes)
    return done(figure)


RATES = "rates.svg"
"""File name of the README's chart."""
CHARTS = (
    Chart(RATES, "Rates of Spark writes", "spark", _rates_of_peers),
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
    """Return the bar colors. This project's producer has its own color."""
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


def write_draft(folder: Path) -> str:
    """Write charts and tables for the samples in the folder. Return the tables as Markdown."""
    figures = json.loads((folder / FIGURES).read_text())
    for earlier in folder.glob("*.svg"):
        earlier.unlink()
    charts = draw_charts(figures, folder)
    pictures = (
        f"![{chart.shows}]({_PUBLISHED.name}/{chart.name})\n\n"
        for chart in charts
        if chart.name != RATES
    )
    samples = f"\n[Every sample as JSON]({_PUBLISHED.name}/{FIGURES})\n"
    text = "".join([*pictures, _tables(figures), samples])
    (folder / TABLES).write_text(text)
    return text


def _tables(figures: Found) -> str:
    """Return the tables of all parts, after a description of the machines."""
    machines: dict[str, list[str]] = {}
    for part, machine in figures["machines"].items():
        machines.setdefault(machine, []).append(part)
    facts = [
        machine if len(machines) == 1 else f"{', '.join(parts)}: {machine}"
        for machine, parts in machines.items()
    ]
    tables = [Table(**each) for part in figures["tables"].values() for each in part]
    targets = [Target(**each) for part in figures["targets"].values() for each in part]
    tables += [*failure_table(figures["failures"]), target_table(targets)]
    return "\n\n".join([*facts, *(table.markdown() for table in tables)]) + "\n"


def publish(folder: Path) -> None:
    """Write a draft's figures to the pages. Parts missing from the draft keep earlier figures."""
    _PUBLISHED.mkdir(exist_ok=True)
    published = _PUBLISHED / FIGURES
    earlier = json.loads(published.read_text()) if published.exists() else {}
    figures = merged(earlier, json.loads((folder / FIGURES).read_text()))
    published.write_text(json.dumps(figures, indent=1) + "\n")
    write_block("figures", write_draft(_PUBLISHED))
    (_PUBLISHED / TABLES).unlink()
    write_block("comparison", comparison(figures))


def merged(earlier: Found, new: Found) -> Found:
    """Return the earlier figures, with the parts in `new` replaced."""
    again = set(new["seconds"])
    kept = {
        section: {part: each for part, each in parts.items() if part not in again}
        for section, parts in earlier.items()
    }
    return {section: {**kept.get(section, {}), **parts} for section, parts in new.items()}


_PEERS = (SINK, TUNED_JVM, CONFLUENT)
_HEADS = ('`format("kafkaprod")`', '`format("kafka")`, tuned', "confluent-kafka in `mapInArrow`")
_KINDS = (
    ("null keys", False, "none"),
    ("keys", True, "none"),
    ("null keys, zstd", False, "zstd"),
    ("keys, zstd", True, "zstd"),
)
"""Kinds of records to compare: name, with or without keys, codec."""
_FEATURES = (
    ("exactly once", "yes", "no", "no"),
    ("rows that cannot be written", "dead letter topic, or an error that names the row")
    + ("the task fails", "your code"),
    ("JSON, Avro, Protobuf; Schema Registry", "yes; yes", "by Spark's functions; no")
    + ("one call per row; yes",),
    ("delivery report", "per partition: offsets, latency, retries, advice", "no", "your code"),
    (
        "broker for tests",
        "embedded, also with faults, TLS, SASL",
        "no",
        "librdkafka's mock cluster",
    ),
    (
        "only there",
        "exactly once, reports, dead letters",
        "reading; Scala, Java; `trigger(continuous=...)`",
    )
    + ("librdkafka's options, consumers",),
)


def comparison(figures: Found) -> str:
    """Return the README's table: rates, CPU and features of the sink and its peers."""
    lines = [f"| M rec/s, CPU per record | {' | '.join(_HEADS)} |", "|---|---|---|---|"]
    for name, with_keys, codec in _KINDS:
        found = [_find(figures, "spark", peer, with_keys, codec=codec) for peer in _PEERS]
        lines.append(_compared(name, found))
    peers = (SINK, DEFAULT_JVM, CONFLUENT)  # 1,000 batches of 1 MiB exceed Java's buffer.memory
    found = [_find(figures, "partitions", peer, True, point=1_000) for peer in peers]
    lines.append(_compared("keys, 1,000 partitions", found))
    lines.append(_first_writes(figures))
    lines += [f"| {' | '.join(row)} |" for row in _FEATURES]
    return "\n".join(lines) + "\n"


def _first_writes(figures: Found) -> str:
    """Return the row for a session's first writes with the newest PySpark."""
    part = [one for one in figures["parts"].get("first-write", []) if one.get("write") == 1]
    wanted = {"records": SECOND_RECORDS, "pyspark": NEWEST}
    seconds = {
        one["sink"]: f"{median(each['seconds'] for each in one['samples']):.1f} s"
        for one in part
        if wanted.items() <= one.items() and one["samples"]
    }
    ours, warm = seconds.get(SINK.name, "-"), seconds.get(WARM, "-")
    cells = (f"{ours}, {warm} after `warm_up`", seconds.get(TUNED_JVM.name, "-"), "-")
    return f"| first write of a session, {SECOND_RECORDS:,} rows | {' | '.join(cells)} |"


def _find(
    figures: Found, part: str, peer: SparkContestant, with_keys: bool, **wanted: Any
) -> Found | None:
    name = keyed(peer.name) if with_keys else peer.name
    measured = _measured(figures["parts"].get(part, []))
    facts = {"contestant": name, **wanted}
    return next((one for one in measured if facts.items() <= one.items()), None)


def _compared(name: str, found: Sequence[Found | None]) -> str:
    cells = (
        "-"
        if one is None
        else f"{one['median_records_per_s'] / _MILLION:.2f}, "
        f"{one['median_cpu_us_per_record']:.2f} µs"
        for one in found
    )
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    publish(Path(sys.argv[1]) if sys.argv[1:] else DRAFT)
