"""A delivery report as HTML for notebooks: the lines of the summary, and a table of partitions.

The tables have no style of their own, so that the notebook's applies, dark or light.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import place_name
from spark_kafka_sink.common.text import plural, size_text
from spark_kafka_sink.report.dry_run import PARTITION_COLUMNS, partition_rows
from spark_kafka_sink.report.summary import summary_rows, title

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.report.delivery_counters import DeliveryCounters
    from spark_kafka_sink.report.partition_report import PartitionReport

PARTITIONS_SHOWN = 20
_COLUMNS = ("partition", "persisted", "other", "batches", "encoded", "bytes sent", "offsets")


def to_html(report: DeliveryCounters) -> str:
    """Return the report as one `div`; everything that comes from data is escaped."""
    facts = "".join(
        f"<tr><th style='text-align:left;white-space:pre'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in summary_rows(report)
    )
    return f"<div><b>{title(report)}</b><table>{facts}</table>{_partitions(report)}</div>"


def _partitions(report: DeliveryCounters) -> str:
    """Return the table, undelivered partitions first; of a dry run the largest first."""
    parts = report.partitions
    if not parts:
        return ""
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    if report.dry_run:
        columns, rows = PARTITION_COLUMNS, partition_rows(report)[:PARTITIONS_SHOWN]
    else:
        order = sorted(parts, key=lambda each: (each.records == each.persisted, each.key))
        columns, rows = _COLUMNS, [_row(each) for each in order[:PARTITIONS_SHOWN]]
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(map(_cells, rows))
    more = len(parts) - PARTITIONS_SHOWN
    rest = f"<p>and {plural(more, 'more partition')}</p>" if more > 0 else ""
    return (
        f"<details><summary>{plural(len(parts), 'partition')}</summary>"
        f"<table><tr>{head}</tr>{body}</table>{rest}</details>"
    )


def _row(part: PartitionReport) -> tuple[str, ...]:
    offsets = "" if part.first_offset is None else f"{part.first_offset:,} to {part.last_offset:,}"
    return (
        place_name(part.topic, part.partition),
        f"{part.persisted:,}",
        f"{part.records - part.persisted:,}",
        f"{part.batches:,}",
        size_text(part.bytes_uncompressed),
        size_text(part.bytes_sent),
        offsets,
    )


def _cells(texts: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>"
