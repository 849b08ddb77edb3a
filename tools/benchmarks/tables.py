"""The figures as tables, for a terminal and for Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table as RichTable

from tools.benchmarks import core, spark
from tools.benchmarks.sample import failure_notes, find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.benchmarks.encoder import EncoderResult
    from tools.benchmarks.sample import Series
    from tools.benchmarks.targets import Target


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first column is words, the others are figures. `notes` go below."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: str = ""

    def rich(self) -> RichTable:
        """For a terminal."""
        table = RichTable(title=self.title, caption=self.notes or None, box=box.SIMPLE)
        table.title_justify = table.caption_justify = "left"
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a page."""
        lines = [f"**{self.title}**", "", _line(self.columns)]
        lines.append("|---|" + "---:|" * (len(self.columns) - 1))
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, *(["", self.notes] if self.notes else [])])


def encoder_table(results: Sequence[EncoderResult]) -> Table:
    """Rates, and nanoseconds per record of each stage."""
    rows = [
        (
            result.name,
            f"{result.median / 1e6:.1f}",
            f"{result.best / 1e6:.1f}",
            ", ".join(f"{stage} {spent:.1f}" for stage, spent in result.stages_ns.items()),
        )
        for result in results
    ]
    return Table(
        "Encoder: 100-byte records, one core, CPU time, no broker",
        ("records", "M rec/s, median", "best", "ns per record"),
        rows,
    )


def core_table(title: str, series: Sequence[Series]) -> Table:
    """Rates, CPU and memory of the core benchmark; ratios are to librdkafka with the same codec."""
    rows = [
        (*_compared(one, find(list(series), core.LIBRDKAFKA, one.codec), digits=3), *_cost(one))
        for one in series
    ]
    columns = ("producer", "codec", "M rec/s", "min - max", "to librdkafka", "CPU us/rec")
    return Table(
        title,
        (*columns, "to librdkafka", "peak MiB", "start-up CPU s"),
        rows,
        _notes(
            "Medians over the rounds; start-up CPU (process start, imports, compilation, warm-up) "
            "is not in CPU us/rec.",
            series,
        ),
    )


def spark_table(series: Sequence[Series]) -> Table:
    """Rates and CPU of whole Spark writes; ratios are to Spark's tuned sink with the same codec."""
    rows = [_compared(one, find(list(series), spark.JVM, one.codec), digits=2) for one in series]
    columns = ("sink", "codec", "M rec/s", "min - max", "to tuned JVM", "CPU us/rec")
    return Table(
        "Spark: 131-byte JSON events from Parquet, local[1], warm session",
        (*columns, "to tuned JVM"),
        rows,
        _notes(
            "CPU is that of the driver, the JVM and the Python workers together, reading included.",
            series,
        ),
    )


def _compared(one: Series, reference: Series | None, digits: int) -> tuple[str, ...]:
    """Who, with which codec, how fast and at which CPU cost, each also as a ratio."""
    if not one.samples:
        return (one.contestant, one.codec, "failed", *["-"] * 4)
    return (
        one.contestant,
        one.codec,
        f"{one.rate / 1e6:.2f}",
        f"{one.slowest / 1e6:.2f} - {one.fastest / 1e6:.2f}",
        _times(one.rate, reference.rate if reference else None),
        f"{one.cpu_us:.{digits}f}",
        _times(one.cpu_us, reference.cpu_us if reference else None),
    )


def _cost(one: Series) -> tuple[str, str]:
    """Memory and what starting took."""
    if not one.samples:
        return ("-", "-")
    return (f"{one.peak_mib:.0f}", f"{one.startup_cpu_s:.1f}")


def target_table(targets: Sequence[Target]) -> Table:
    """What was aimed at, and what came out."""
    rows = [(target.what, target.wanted, target.figure, target.verdict) for target in targets]
    return Table("Targets", ("target", "wanted", "measured", "met"), rows)


def _notes(about: str, series: Sequence[Series]) -> str:
    failed = failure_notes((f"{one.contestant}, {one.codec},", one.failures) for one in series)
    return " ".join([about, *failed])


def _times(value: float, reference: float | None) -> str:
    return "-" if reference is None else f"{value / reference:.2f}x"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
