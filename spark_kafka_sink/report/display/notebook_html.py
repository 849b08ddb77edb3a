"""A delivery report as HTML for notebooks.

The tables have no style, so that the notebook's dark or light style applies.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import plural
from spark_kafka_sink.report.display.partition_table import partition_table
from spark_kafka_sink.report.display.summary import summary_rows, title

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.report.delivery_counters import DeliveryCounters


_PARTITIONS_SHOWN = 20


def to_html(report: DeliveryCounters) -> str:
    """Return the report as one `div`. Everything that comes from data is escaped."""
    facts = "".join(
        f"<tr><th style='text-align:left;white-space:pre'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in summary_rows(report)
    )
    return f"<div><b>{title(report)}</b><table>{facts}</table>{_partitions_html(report)}</div>"


def _partitions_html(report: DeliveryCounters) -> str:
    if not report.partitions:
        return ""
    table = partition_table(report, _PARTITIONS_SHOWN)
    head = _table_row("th", table.columns)
    body = "".join(_table_row("td", row) for row in table.rows)
    caption = f"<p>{table.caption}</p>" if table.caption else ""
    return (
        f"<details><summary>{plural(len(report.partitions), 'partition')}</summary>"
        f"<table>{head}{body}</table>{caption}</details>"
    )


def _table_row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
