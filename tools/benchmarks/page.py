"""Write the tables and charts of a run to a draft folder and to docs/benchmarks.md.

`python -m tools.benchmarks.page` publishes the draft of the last run. The results of a run are a
JSON object with the sections of `empty`, each with one entry for each part.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from spark_kafka_sink.report.plots.panels import (
    GOOD,
    PALE,
    SECOND,
    finish_figure,
    legend,
    set_labels,
)
from tools.benchmarks.spark.contestants import (
    CONFLUENT,
    SINK,
    TUNED_JVM,
    WRITE,
    SparkContestant,
    keyed,
)
from tools.benchmarks.spark.writes import NEWEST, SECOND_RECORDS, WARM
from tools.benchmarks.tables import Table, Target, target_table
from tools.docs.pages import DOCS, write_block
from tools.support.jars import ROOT

Found = Mapping[str, Any]

_MILLION = 1_000_000
_HALF_STEP = 0.00005
"""Stored medians have four decimals; without this, 0.865 becomes 0.86, unlike in the tables."""
DRAFT = ROOT / "build" / "benchmarks"
FIGURES, TABLES = "figures.json", "figures.md"
PUBLISHED = DOCS / "benchmarks"
RATES = "rates.svg"
"""File name of the README's chart."""
_PEERS = (SINK, TUNED_JVM, CONFLUENT)
_TUNED_PEERS = (SINK.not_measured(), TUNED_JVM)
"""The sink with a setting that has no effect on Spark's own sink."""
_HEADS = ('`format("kafkaprod")`', '`format("kafka")`, tuned', "confluent-kafka in `mapInArrow`")
_SMALL_ROWS = "[maxBytesPerBatch](docs/spark.md#settings-of-the-session) 2147483647"
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
        "unique features",
        "exactly once, reports, dead letters",
        "reading; Scala, Java; `trigger(continuous=...)`",
    )
    + ("librdkafka's options, consumers",),
)


def empty() -> dict[str, dict[str, Any]]:
    """Return the results of a run without parts."""
    return {name: {} for name in ("machines", "seconds", "failures", "parts", "tables", "targets")}


def save(figures: Found, folder: Path = DRAFT) -> None:
    """Write the results to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = (f"{json.dumps(section)}: {_by_line(parts)}" for section, parts in figures.items())
    (folder / FIGURES).write_text("{\n" + ",\n".join(sections) + "\n}\n", encoding="utf-8")


def _by_line(parts: Found) -> str:
    """Return the results of parts as JSON with one line for each result."""
    texts = []
    for part, results in parts.items():
        lines = [json.dumps(result) for result in results] if isinstance(results, list) else None
        text = json.dumps(results) if lines is None else "[\n" + ",\n".join(lines) + "\n]"
        texts.append(f"{json.dumps(part)}: {text}")
    return "{\n" + ",\n".join(texts) + "\n}"


def draw_rates(figures: Found, folder: Path) -> None:
    """Draw the README's chart as an SVG file if the rates were measured."""
    (folder / RATES).unlink(missing_ok=True)
    if "spark" in figures["parts"]:
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "benchmarks"}):
            figure = _rates_of_peers(figures["parts"]["spark"])
            figure.savefig(folder / RATES, format="svg", metadata={"Date": None})


def _rates_of_peers(series: Sequence[Found]) -> Figure:
    """Draw the rates of the README's comparison, with a group of bars per kind of record."""
    figure, axes = plt.subplots(figsize=(8, 3))
    width = 0.8 / len(_PEERS)
    for number, (peer, color) in enumerate(zip(_PEERS, (GOOD, PALE, SECOND), strict=True)):
        results = [_find(series, peer, keys, codec=codec) for _, keys, codec in _KINDS]
        heights = [result["median_records_per_s"] / _MILLION for result in results]
        places = [kind + number * width for kind in range(len(_KINDS))]
        axes.bar(places, heights, width, color=color, label=peer.name)
    axes.set_xticks([kind + width for kind in range(len(_KINDS))], [name for name, *_ in _KINDS])
    set_labels(
        axes, "131-byte JSON events from Parquet to one Kafka, one core for Spark", y="M rec/s"
    )
    legend(axes)
    return finish_figure(figure)


def write_draft(folder: Path) -> str:
    """Write chart and tables of the samples in the folder, and return the tables as Markdown."""
    figures = json.loads((folder / FIGURES).read_text(encoding="utf-8"))
    draw_rates(figures, folder)
    parts: dict[str, list[str]] = {}
    for part, machine in figures["machines"].items():
        parts.setdefault(machine, []).append(part)
    machines = [
        machine if len(parts) == 1 else f"{', '.join(measured)}: {machine}"
        for machine, measured in parts.items()
    ]
    blocks = "\n\n".join([*machines, *(table.markdown() for table in tables(figures))])
    samples = f"[Every sample as JSON]({PUBLISHED.name}/{FIGURES})\n"
    text = f"{blocks}\n\n{samples}"
    (folder / TABLES).write_text(text, encoding="utf-8")
    return text


def tables(figures: Found) -> list[Table]:
    """Return the tables of all parts, of the parts that failed, and of the targets."""
    all_tables = [Table(**fields) for part in figures["tables"].values() for fields in part]
    failed = [
        (part, trace.strip().splitlines()[-1][:200]) for part, trace in figures["failures"].items()
    ]
    if failed:
        all_tables.append(Table("Parts that failed", ("part", "why"), failed))
    targets = [Target(**fields) for part in figures["targets"].values() for fields in part]
    return [*all_tables, target_table(targets)]


def publish() -> None:
    """Write the draft's figures to the pages. Parts missing from the draft keep earlier figures."""
    earlier = json.loads((PUBLISHED / FIGURES).read_text(encoding="utf-8"))
    figures = merged(earlier, json.loads((DRAFT / FIGURES).read_text(encoding="utf-8")))
    save(figures, PUBLISHED)
    write_block("figures", write_draft(PUBLISHED))
    (PUBLISHED / TABLES).unlink()
    write_block("comparison", comparison(figures))


def merged(earlier: Found, new: Found) -> Found:
    """Return the earlier figures, with the parts in `new` replaced."""
    again = set(new["seconds"])
    kept = {
        section: {part: results for part, results in parts.items() if part not in again}
        for section, parts in earlier.items()
    }
    return {section: {**kept.get(section, {}), **parts} for section, parts in new.items()}


def comparison(figures: Found) -> str:
    """Return the README's table: rates, CPU and features of the sink and its peers."""
    head = "M rec/s, CPU per record, with Spark's default settings"
    rows = [f"| {head} | {' | '.join(_HEADS)} |", "|---|---|---|---|"]
    parts = figures["parts"]
    for name, with_keys, codec in _KINDS:
        results = [_find(parts["spark"], peer, with_keys, codec=codec) for peer in _PEERS]
        rows.append(_compared(name, results))
    for name, with_keys in (("null keys", False), ("keys", True)):
        results = [_find(parts["spark"], peer, with_keys, codec="none") for peer in _TUNED_PEERS]
        rows.append(_compared(f"{name}, {_SMALL_ROWS}", results))
    rows.append(_first_writes(figures))
    rows += [f"| {' | '.join(row)} |" for row in _FEATURES]
    return "\n".join(rows) + "\n"


def _first_writes(figures: Found) -> str:
    """Return the row for a session's first writes with the newest PySpark."""
    facts = {"records": SECOND_RECORDS, "pyspark": NEWEST, "write": 1}
    seconds = {
        result["contestant"]: f"{median(sample['seconds'] for sample in result['samples']):.1f} s"
        for result in figures["parts"]["first-write"]
        if facts.items() <= result.items()
    }
    ours = f"{seconds[SINK.name]}; `write` {seconds[WRITE.name]}; after `warm_up` {seconds[WARM]}"
    cells = (f"first write of a session, {SECOND_RECORDS:,} rows", ours, seconds[TUNED_JVM.name])
    return f"| {' | '.join(cells)} | - |"


def _find(series: Sequence[Found], peer: SparkContestant, with_keys: bool, **facts: Any) -> Found:
    values = {"contestant": keyed(peer.name) if with_keys else peer.name, **facts}
    return next(result for result in series if values.items() <= result.items())


def _compared(name: str, results: Sequence[Found]) -> str:
    cells = [
        f"{result['median_records_per_s'] / _MILLION:.2f}, "
        f"{result['median_cpu_us_per_record'] + _HALF_STEP:.2f} µs"
        for result in results
    ]
    cells += ["-"] * (len(_PEERS) - len(cells))
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    publish()
