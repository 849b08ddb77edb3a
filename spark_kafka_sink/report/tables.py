"""Delivery reports as tables for the terminal."""

from __future__ import annotations

import os
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.console import Console, JustifyMethod
from rich.table import Table

from spark_kafka_sink.common.delivery_status import place_name
from spark_kafka_sink.common.text import plural, size_text
from spark_kafka_sink.report import text_and_html
from spark_kafka_sink.report.advisor import advise
from spark_kafka_sink.report.partition_report import PartitionReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.key_figures import Comparison

MAX_MICRO_BATCHES = 50
"""Maximum number of micro-batches in the table; only the latest are shown."""
MAX_PARTITIONS = 50
"""Maximum number of partitions in the table, in which partitions with failures come first."""
WIDTH = 160


def print_report(
    report: DeliveryReport,
    console: Console | None = None,
    parts: Sequence[DeliveryReport] = (),
) -> None:
    """Print a report: totals, partitions, slowest tasks, errors.

    Args:
        report: the report.
        console: where to print; None for stdout.
        parts: the reports of the micro-batches that were combined into `report`, if any.
    """
    out = console or wide_console()
    out.print(_totals(report, len(parts)))
    if parts:
        out.print(_micro_batches(parts))
    if report.codecs:
        out.print(_codecs(report))
    out.print(_dry_run_partitions(report) if report.dry_run else _partitions(report))
    if report.slowest:
        out.print(_slowest(report, parts))
    if report.errors:
        errors = ((name, f"{times:,}") for name, times in report.errors)
        out.print(make_table("Errors", ("error", ">times"), errors))


def print_advice(report: DeliveryReport, console: Console | None = None) -> None:
    """Print the advice for a report, or a line if there is no advice."""
    rows = [
        (advice.setting, advice.direction, advice.sentence, advice.figure)
        for advice in advise(report)
    ]
    table = make_table("Advice", ("setting", "do", "why", "figure"), rows)
    out = console or wide_console()
    out.print(table if rows else _nothing_to_advise(report))


def print_comparison(
    comparison: Comparison, names: tuple[str, str], console: Console | None = None
) -> None:
    """Print the figures of two reports in adjacent columns, and the settings that differ."""
    out = console or wide_console()
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


def _nothing_to_advise(report: DeliveryReport) -> str:
    if report.records and not report.metrics.settings:
        return "No advice: the report does not contain the producer's settings."
    return "No advice: no setting seems to limit this write."


def wide_console() -> Console:
    """Return a console as wide as the terminal or COLUMNS, otherwise `WIDTH` columns wide."""
    console = Console()
    known = console.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
    return console if known else Console(width=WIDTH)


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


def more_caption(left_out: int, noun: str) -> str | None:
    """Return the caption of a table that omits rows, or None if it contains all rows."""
    return f"and {plural(left_out, noun)}" if left_out > 0 else None


def _totals(report: DeliveryReport, summed: int) -> Table:
    """Return the table of totals; `summed` is the number of added reports, or 0 for one report."""
    title = text_and_html.dry_run_title(report) if report.dry_run else "Delivery"
    of = f": sum of {plural(summed, 'report')}" if summed else ""
    table = Table(title=f"{title}{of}", show_header=False)
    rows = (
        ("status", f"{report.status} {report.error}".strip()),
        ("last written at" if summed else "written at", report.written_at or "unknown"),
        *([] if summed else _stream(report)),
        ("rows", f"{report.rows:,}"),
        ("dead letters", f"{report.dead_lettered:,}"),
        ("rows dropped", f"{report.dropped:,}"),
        ("records", f"{report.records:,}"),
        ("persisted", f"{report.persisted:,}"),
        *_dry_run(report),
        ("encoded", size_text(report.bytes_uncompressed)),
        (_sent(report), size_text(report.bytes_sent)),
        ("tasks", f"{report.tasks:,} ({report.retried_tasks:,} retried)"),
        ("batches sent again", f"{report.retries:,}"),
        ("batches split", f"{report.splits:,}"),
        ("throttled", f"{report.throttle_ms:,} ms"),
        ("all writes, added up" if summed else "whole write", _seconds(report.duration_ms)),
        *_startup(report),
        ("slowest task", _seconds(report.duration_max_ms)),
        *_latencies(report),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _startup(report: DeliveryReport) -> list[tuple[str, str]]:
    if not report.startup_ms:
        return []
    return [("start of Python workers", _seconds(report.startup_ms))]


def _latencies(report: DeliveryReport) -> list[tuple[str, str]]:
    if report.dry_run:
        return []
    return [
        ("request latency", text_and_html.latency_text(report.request_latency)),
        ("queue latency", text_and_html.latency_text(report.queue_latency)),
    ]


def _dry_run(report: DeliveryReport) -> list[tuple[str, str]]:
    if not report.dry_run:
        return []
    rows = [row for row in text_and_html.dry_run_rows(report) if row[0] in {"batches", "skew"}]
    return [("would be written", f"{report.would_be_written:,}"), *rows]


def _sent(report: DeliveryReport) -> str:
    return "bytes to be sent" if report.dry_run else "bytes sent"


def _codecs(report: DeliveryReport) -> Table:
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


def _stream(report: DeliveryReport) -> list[tuple[str, str]]:
    if report.batch_id is None:
        return []
    return [("micro-batch", f"{report.batch_id} {report.query_name or report.query_id}")]


def _seconds(ms: int) -> str:
    return f"{ms / 1000:,.1f} s" if ms else "unknown"


def _partitions(report: DeliveryReport) -> Table:
    def is_delivered(part: PartitionReport) -> bool:
        return not (part.possibly_persisted or part.not_persisted)

    chosen = sorted(report.partitions, key=lambda p: (is_delivered(p), p.key))[:MAX_PARTITIONS]
    rows = [_partition_cells(part) for part in chosen]
    zero = _partition_cells(PartitionReport(topic="", partition=0))
    shown = [
        name
        for name, empty in zero.items()
        if name == "persisted" or any(cells[name] != empty for cells in rows)
    ]
    return make_table(
        "Partitions",
        ("partition", *(f">{name}" for name in shown)),
        (
            (place_name(*part.key), *(cells[name] for name in shown))
            for part, cells in zip(chosen, rows, strict=True)
        ),
        more_caption(len(report.partitions) - len(chosen), "more partition"),
    )


def _partition_cells(part: PartitionReport) -> dict[str, str]:
    """Return a partition's cells by column. Columns whose cells are all empty are omitted later."""
    return {
        "persisted": f"{part.persisted:,}",
        "possibly": f"{part.possibly_persisted:,}",
        "not": f"{part.not_persisted:,}",
        "sent": f"{part.sent:,}",
        "batches": f"{part.batches:,}",
        "bytes": size_text(part.bytes_sent),
        "offsets": ""
        if part.first_offset is None
        else f"{part.first_offset:,}..{part.last_offset:,}",
    }


def _dry_run_partitions(report: DeliveryReport) -> Table:
    rows = text_and_html.partition_rows(report)
    first, *numbers = text_and_html.PARTITION_COLUMNS
    return make_table(
        "Partitions, the largest first",
        (first, *(f">{name}" for name in numbers)),
        rows[:MAX_PARTITIONS],
        more_caption(len(rows) - MAX_PARTITIONS, "more partition"),
    )


def _micro_batches(parts: Sequence[DeliveryReport]) -> Table:
    numbers = (">records", ">persisted", ">seconds", ">slowest task", ">retries", ">request p99")
    rows = (
        (
            _batch_name(part),
            part.started_at[:19],
            part.status.value,
            f"{part.records:,}",
            f"{part.persisted:,}",
            f"{part.duration_ms / 1000:,.1f}",
            f"{part.duration_max_ms / 1000:,.1f}",
            f"{part.retries:,}",
            f"{part.request_latency.percentile(99) / 1000:,.1f} ms"
            if part.request_latency.count
            else "",
        )
        for part in parts[-MAX_MICRO_BATCHES:]
    )
    return make_table(
        "Micro-batches",
        ("micro-batch", "started at", "status", *numbers),
        rows,
        more_caption(len(parts) - MAX_MICRO_BATCHES, "earlier report"),
    )


def _batch_name(report: DeliveryReport) -> str:
    number = "" if report.batch_id is None else str(report.batch_id)
    return f"{number} {report.query_name}".strip()


def _slowest(report: DeliveryReport, parts: Sequence[DeliveryReport]) -> Table:
    """Return the table of the slowest tasks, with their micro-batches if these are known."""
    numbers = ("partition", "attempt", "seconds", "records", _sent(report), "retries", "poison")
    tasks = [(_batch_name(part), task) for part in parts or (report,) for task in part.slowest]
    tasks.sort(key=itemgetter(1), reverse=True)
    rows = (
        (
            *([name] if parts else []),
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
    columns = (*(["micro-batch"] if parts else []), *(f">{name}" for name in numbers))
    return make_table("Slowest tasks", columns, rows)
