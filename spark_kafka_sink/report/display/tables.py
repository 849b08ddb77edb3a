"""Delivery reports as tables for the terminal."""

from __future__ import annotations

import os
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.console import Console, JustifyMethod
from rich.table import Table

from spark_kafka_sink.common.text import plural, size_text
from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.display.partition_table import omitted_caption, partition_table
from spark_kafka_sink.report.display.summary import summary_rows, title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_kafka_sink.report.delivery_counters import DeliveryCounters
    from spark_kafka_sink.report.display.key_figures import Comparison

_MAX_MICRO_BATCHES = 50
"""Maximum number of micro-batches in the table; only the latest are shown."""
_MAX_PARTITIONS = 50
"""Maximum number of partitions in the table, in which partitions with failures come first."""
_WIDTH = 160
_OTHER_TABLES = {"topic", "", "advice"}
"""Lines of the summary whose content is in another table."""


def print_report(
    report: DeliveryCounters,
    console: Console | None = None,
    batches: Sequence[DeliveryCounters] = (),
) -> None:
    """Print a report: totals, partitions, slowest tasks, errors.

    Args:
        report: the report.
        console: where to print; None for stdout.
        batches: the reports of the micro-batches that were combined into `report`, if any.
    """
    out = console or wide_console()
    out.print(_totals_table(report, len(batches)))
    if batches:
        out.print(_micro_batches(batches))
    if report.codecs:
        out.print(_codec_table(report))
    partitions = partition_table(report, _MAX_PARTITIONS)
    first, *numbers = partitions.columns
    columns = (first, *(f">{name}" for name in numbers))
    out.print(make_table(partitions.title, columns, partitions.rows, partitions.caption))
    if report.slowest:
        out.print(_slowest_tasks_table(report, batches))
    if report.errors:
        errors = ((name, f"{times:,}") for name, times in report.errors)
        out.print(make_table("Errors", ("error", ">times"), errors))


def print_advice(report: DeliveryCounters, console: Console | None = None) -> None:
    """Print the advice for a report, or a line if there is no advice."""
    rows = [
        (advice.setting, advice.direction, advice.conclusion, advice.evidence)
        for advice in advise(report)
    ]
    table = make_table("Advice", ("setting", "do", "why", "evidence"), rows)
    out = console or wide_console()
    out.print(table if rows else _nothing_to_advise(report))


def print_comparison(comparison: Comparison, names: tuple[str, str]) -> None:
    """Print the figures of two reports in adjacent columns, and the settings that differ."""
    out = wide_console()
    rows = [
        (
            change.name,
            _amount(change.before, change.unit),
            _amount(change.after, change.unit),
            "" if change.percent is None else _percent(change.percent),
        )
        for change in comparison.changes
    ]
    numbers = (f">{name}" for name in (*names, "change"))
    out.print(make_table("Two writes", ("figure", *numbers), rows))
    if comparison.settings:
        columns = ("setting", *names)
        out.print(make_table("Settings that differ", columns, comparison.settings))


def _percent(value: float) -> str:
    """Format a percentage; empty if it rounds to 0."""
    return f"{value:+,.0f} %" if round(value) else ""


def _amount(value: float, unit: str) -> str:
    text = f"{value:,.1f}" if unit and unit != "records/s" else f"{value:,.0f}"
    return f"{text} {unit}".strip()


def _nothing_to_advise(report: DeliveryCounters) -> str:
    if report.records and not report.metrics.settings:
        return "No advice: the report does not contain the producer's settings."
    return "No advice: no setting seems to limit this write."


def wide_console() -> Console:
    """Return a console as wide as the terminal or COLUMNS, otherwise `_WIDTH` columns wide.

    It prints texts unchanged: errors contain [topic=...], which could be markup, and transactional
    ids could contain names of emoji.
    """
    console = Console(markup=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        console.width = _WIDTH
    return console


def make_table(
    title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], caption: str | None = None
) -> Table:
    """Return a table. Columns whose name starts with ">" are right-aligned, such as numbers."""
    table = Table(title=title, caption=caption)
    for name in columns:
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _totals_table(report: DeliveryCounters, summed: int) -> Table:
    """Return the table of totals; `summed` is the number of added reports, or 0 for one report."""
    suffix = f": sum of {plural(summed, 'report')}" if summed else ""
    table = Table(title=f"{title(report)}{suffix}", show_header=False)
    written_at = "last written at" if summed else "written at"
    rows = [(written_at, report.written_at or "unknown"), *summary_rows(report)]
    if report.batch_id is not None and not summed:
        rows.insert(0, ("micro-batch", f"{report.batch_id} {report.query_name or report.query_id}"))
    for name, text in rows:
        if name not in _OTHER_TABLES:
            table.add_row("time, added up" if name == "time" and summed else name, text)
    return table


def _codec_table(report: DeliveryCounters) -> Table:
    sample = report.codecs[0]
    batches = plural(sample.batches, "batch", "batches")
    rows = (
        (
            cost.codec,
            f"{cost.ratio:,.2f} to 1",
            size_text(report.bytes_uncompressed / cost.ratio),
            f"{cost.us_per_record:,.2f}",
            f"{cost.ns_per_byte:,.2f}",
        )
        for cost in report.codecs
    )
    return make_table(
        "Codecs",
        ("codec", ">ratio", ">bytes to be sent", ">CPU µs per record", ">CPU ns per byte"),
        rows,
        f"{batches} of {size_text(sample.bytes_uncompressed)} measured",
    )


def _micro_batches(batches: Sequence[DeliveryCounters]) -> Table:
    numbers = (">records", ">persisted", ">seconds", ">slowest task", ">retries", ">request p99")
    rows = (
        (
            _batch_name(batch),
            batch.started_at[:19],
            batch.status.value,
            f"{batch.records:,}",
            f"{batch.persisted:,}",
            f"{batch.duration_ms / 1000:,.1f}",
            f"{batch.duration_max_ms / 1000:,.1f}",
            f"{batch.retries:,}",
            f"{batch.request_latency.percentile(99) / 1000:,.1f} ms"
            if batch.request_latency.count
            else "",
        )
        for batch in batches[-_MAX_MICRO_BATCHES:]
    )
    return make_table(
        "Micro-batches",
        ("micro-batch", "started at", "status", *numbers),
        rows,
        omitted_caption(len(batches) - _MAX_MICRO_BATCHES, "earlier report"),
    )


def _batch_name(report: DeliveryCounters) -> str:
    number = "" if report.batch_id is None else str(report.batch_id)
    return f"{number} {report.query_name}".strip()


def _slowest_tasks_table(report: DeliveryCounters, batches: Sequence[DeliveryCounters]) -> Table:
    """Return the table of the slowest tasks, with their micro-batches if these are known."""
    numbers = (
        "partition",
        "attempt",
        "seconds",
        "records",
        "bytes to be sent" if report.dry_run else "bytes sent",
        "retries",
        "bad rows",
    )
    tasks = [(_batch_name(batch), task) for batch in batches or (report,) for task in batch.slowest]
    tasks.sort(key=itemgetter(1), reverse=True)
    rows = (
        (
            *([name] if batches else []),
            f"{task.task.partition_id:,}",
            f"{task.task.attempt:,}",
            f"{task.duration_ms / 1000:,.1f}",
            f"{task.records:,}",
            size_text(task.bytes_sent),
            f"{task.retries:,}",
            f"{task.poison:,}",
        )
        for name, task in tasks[: len(report.slowest)]
    )
    columns = (*(["micro-batch"] if batches else []), *(f">{name}" for name in numbers))
    return make_table("Slowest tasks", columns, rows)
