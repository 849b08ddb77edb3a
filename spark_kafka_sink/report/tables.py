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
    from collections.abc import Sequence

    from spark_kafka_sink.metrics.histogram import Histogram
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.figures import Comparison

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
        parts: the reports of the micro-batches that were added up to `report`, if any.
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
        out.print(_errors(report))


def print_advice(report: DeliveryReport, console: Console | None = None) -> None:
    """Print the advice for a report, or a line if there is no advice."""
    table = Table(title="Advice")
    for name in ("setting", "do", "why", "figure"):
        table.add_column(name, overflow="fold")
    for advice in advise(report):
        table.add_row(advice.setting, advice.direction, advice.sentence, advice.figure)
    out = console or wide_console()
    out.print(table if table.row_count else _nothing_to_advise(report))


def print_comparison(
    comparison: Comparison, names: tuple[str, str], console: Console | None = None
) -> None:
    """Print the figures of two reports in adjacent columns, and the settings that differ."""
    out = console or wide_console()
    table = Table(title="Two writes")
    for name in ("figure", *names, "change"):
        table.add_column(name, justify="left" if name == "figure" else "right", overflow="fold")
    for each in comparison.changes:
        changed = "" if each.percent is None else _percent(each.percent)
        table.add_row(
            each.name, _amount(each.before, each.unit), _amount(each.after, each.unit), changed
        )
    out.print(table)
    if comparison.settings:
        settings = Table("setting", *names, title="Settings that differ")
        for row in comparison.settings:
            settings.add_row(*row)
        out.print(settings)


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
        ("request latency", _latency(report.request_latency)),
        ("queue latency", _latency(report.queue_latency)),
    ]


def _dry_run(report: DeliveryReport) -> list[tuple[str, str]]:
    if not report.dry_run:
        return []
    would = ("would be written", f"{report.would_be_written:,}")
    return [
        would,
        *(row for row in text_and_html.dry_run_rows(report) if row[0] in {"batches", "skew"}),
    ]


def _sent(report: DeliveryReport) -> str:
    return "bytes to be sent" if report.dry_run else "bytes sent"


def _codecs(report: DeliveryReport) -> Table:
    one = report.codecs[0]
    table = Table(
        title="Codecs",
        caption=f"{plural(one.batches, 'batch', 'batches')} of {size_text(one.bytes_uncompressed)} "
        "measured",
    )
    table.add_column("codec")
    for name in ("ratio", "bytes to be sent", "CPU µs per record", "CPU ns per byte"):
        table.add_column(name, justify="right")
    for each in report.codecs:
        table.add_row(
            each.codec,
            f"{each.ratio:,.2f} to 1",
            size_text(report.bytes_uncompressed / each.ratio),
            f"{each.us_per_record:,.2f}",
            f"{each.ns_per_byte:,.2f}",
        )
    return table


def _stream(report: DeliveryReport) -> list[tuple[str, str]]:
    if report.batch_id is None:
        return []
    return [("micro-batch", f"{report.batch_id} {report.query_name or report.query_id}")]


def _seconds(ms: int) -> str:
    return f"{ms / 1000:,.1f} s" if ms else "unknown"


def _latency(times: Histogram) -> str:
    p50, p99 = times.percentile(50) / 1000, times.percentile(99) / 1000
    return f"p50 {p50:,.1f} ms, p99 {p99:,.1f} ms, max {times.high / 1000:,.1f} ms"


def _partitions(report: DeliveryReport) -> Table:
    chosen = sorted(report.partitions, key=lambda p: (_delivered(p), p.key))[:MAX_PARTITIONS]
    left_out = len(report.partitions) - len(chosen)
    caption = f"and {plural(left_out, 'more partition')}" if left_out else None
    table = Table(title="Partitions", caption=caption)
    table.add_column("partition", overflow="fold")
    rows = [_partition_cells(part) for part in chosen]
    zero = _partition_cells(PartitionReport(topic="", partition=0))
    shown = [
        name
        for name, empty in zero.items()
        if name == "persisted" or any(cells[name] != empty for cells in rows)
    ]
    for name in shown:
        table.add_column(name, justify="right", overflow="fold")
    for part, cells in zip(chosen, rows, strict=True):
        table.add_row(place_name(part.topic, part.partition), *(cells[name] for name in shown))
    return table


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
    left_out = len(rows) - MAX_PARTITIONS
    caption = f"and {plural(left_out, 'more partition')}" if left_out > 0 else None
    table = Table(title="Partitions, the largest first", caption=caption)
    for name in text_and_html.PARTITION_COLUMNS:
        justify: JustifyMethod = "left" if name == "partition" else "right"
        table.add_column(name, justify=justify, overflow="fold")
    for row in rows[:MAX_PARTITIONS]:
        table.add_row(*row)
    return table


def _micro_batches(parts: Sequence[DeliveryReport]) -> Table:
    left_out = len(parts) - MAX_MICRO_BATCHES
    caption = f"and {plural(left_out, 'earlier report')}" if left_out > 0 else None
    table = Table(title="Micro-batches", caption=caption)
    for name in ("micro-batch", "started at", "status"):
        table.add_column(name, overflow="fold")
    numbers = ("records", "persisted", "seconds", "slowest task", "retries", "request p99")
    for name in numbers:
        table.add_column(name, justify="right", overflow="fold")
    for each in parts[-MAX_MICRO_BATCHES:]:
        latency = each.request_latency
        table.add_row(
            _batch_name(each),
            each.started_at[:19],
            each.status.value,
            f"{each.records:,}",
            f"{each.persisted:,}",
            f"{each.duration_ms / 1000:,.1f}",
            f"{each.duration_max_ms / 1000:,.1f}",
            f"{each.retries:,}",
            f"{latency.percentile(99) / 1000:,.1f} ms" if latency.count else "",
        )
    return table


def _batch_name(report: DeliveryReport) -> str:
    number = "" if report.batch_id is None else str(report.batch_id)
    return f"{number} {report.query_name}".strip()


def _slowest(report: DeliveryReport, parts: Sequence[DeliveryReport]) -> Table:
    """Return the table of the slowest tasks, with their micro-batches if these are known."""
    table = Table(title="Slowest tasks")
    size = _sent(report)
    if parts:
        table.add_column("micro-batch", overflow="fold")
    for name in ("partition", "attempt", "seconds", "records", size, "retries", "poison"):
        table.add_column(name, justify="right", overflow="fold")
    tasks = [(_batch_name(part), task) for part in parts or (report,) for task in part.slowest]
    tasks.sort(key=itemgetter(1), reverse=True)
    for name, each in tasks[: len(report.slowest)]:
        table.add_row(
            *([name] if parts else []),
            f"{each.task.partition_id:,}",
            f"{each.task.attempt:,}",
            f"{each.duration_ms / 1000:,.1f}",
            f"{each.records:,}",
            size_text(each.bytes_sent),
            f"{each.retries:,}",
            f"{each.poison:,}",
        )
    return table


def _delivered(part: PartitionReport) -> bool:
    return not (part.possibly_persisted or part.not_persisted)


def _errors(report: DeliveryReport) -> Table:
    table = Table(title="Errors")
    table.add_column("error")
    table.add_column("times", justify="right")
    for name, times in report.errors:
        table.add_row(name, f"{times:,}")
    return table
