"""Limit the number of files that a stream writes: reports, and statistics of its tasks.

Only files of the stream's own query are deleted. Reports of failed micro-batches are kept longest.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.file_storage import delete_file, delete_files, read_report
from spark_kafka_sink.report.write_status import WriteStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.report.delivery_report import DeliveryReport

KEPT = 1_000
"""Number of micro-batches whose files are kept."""
FAILED_KEPT = 10_000
"""Number of micro-batches of which the reports with status "failed" are kept."""
_AT_ONCE = 1_000
"""Maximum number of reports that are deleted after one micro-batch."""
_LISTING_INTERVAL = 100
"""Statistics are deleted every 100 micro-batches, because their folder must be listed."""


def delete_old_reports(report: DeliveryReport, path_of: Callable[[int], str], folders: int) -> None:
    """Delete the reports of micro-batches that are too old, and their folders if these are empty.

    Usually, this is one report: older ones were deleted after earlier micro-batches.

    Args:
        report: the report of the latest micro-batch.
        path_of: returns a report's path.
        folders: number of parent folders that contain the report of one micro-batch only.
    """
    newest = (report.batch_id or 0) - KEPT
    for batch in range(newest, max(newest - _AT_ONCE, -1), -1):
        status = _status_of_query(path_of(batch), report.query_id)
        if status is None:
            break
        if status != WriteStatus.FAILED:
            delete_file(path_of(batch), folders)
    oldest = (report.batch_id or 0) - FAILED_KEPT
    if oldest >= 0 and _status_of_query(path_of(oldest), report.query_id) is not None:
        delete_file(path_of(oldest), folders)


def _status_of_query(path: str, query_id: str) -> str | None:
    """Return the status in a report, or None if there is no report of this query."""
    try:
        stored = json.loads(read_report(path))
    except (ReportError, ValueError):
        return None
    return str(stored.get("status")) if stored.get("query_id") == query_id else None


def statistics_prefix(query_id: str | None, batch: str | None) -> str:
    """Return the start of a statistics file's name; empty outside a stream."""
    return f"query-{query_id[:8]}-batch-{batch}-" if query_id and batch else ""


def delete_old_statistics(report: DeliveryReport, folder: str) -> None:
    """Delete the statistics of the query's micro-batches that are too old."""
    batch_id = report.batch_id
    prefix = re.escape(statistics_prefix(report.query_id, "*"))
    name = re.compile(prefix.replace(r"\*", r"(\d{1,18})") + "task-.*")
    if batch_id is None or batch_id % _LISTING_INTERVAL or not report.query_id:
        return
    oldest = batch_id - KEPT

    def is_old(file: str) -> bool:
        match = name.fullmatch(file)
        return match is not None and int(match[1]) <= oldest

    delete_files(folder, is_old)
