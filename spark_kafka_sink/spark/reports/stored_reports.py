"""The stored reports of a stream's micro-batches: their paths, and counts of an earlier run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.file_storage import read_report
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.report_paths import (
    StreamIdentity,
    micro_batch_path,
    own_report_path,
    path_within,
    stream_reports_folder,
    warn_of_own_path,
)

if TYPE_CHECKING:
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin

_UNKNOWN_QUERY = "unknown-query"


def report_path_of(configured_path: str, origin: WriteOrigin, batch_id: int, query_id: str) -> str:
    """Return a report's path; a stream identified only by its query's id gets its own path.

    If no task has finished, the id is unknown, and the report never replaces a report of a known
    query.
    """
    folder = ReportFolder.here()
    if folder is None or origin.query_name or origin.checkpoint:
        return micro_batch_path(configured_path, batch_id)
    path = configured_path
    if query_id:
        path = own_report_path(path, StreamIdentity("", query_id), folder.application)
        if path != configured_path:
            warn_of_own_path(configured_path, path, folder.application)
    else:
        stored = _read_stored(micro_batch_path(path, batch_id), stream_reports_folder(path))
        if stored is not None and stored.query_id:
            path = path_within(path, _UNKNOWN_QUERY)
    return micro_batch_path(path, batch_id)


def with_stored_counts(report: DeliveryReport, path: str, folder: str | None) -> DeliveryReport:
    """Return the file's counts if they are those of a micro-batch that is already written.

    A run that repeats such a micro-batch has no counts, whether it succeeds or fails.
    """
    if not report.transaction_outcome or not report.query_id or report.batch_id is None:
        return report
    from spark_kafka_sink.exactly_once.commit_outcome import CommitStatus  # rarely needed

    stored = _read_stored(path, folder)
    if stored is None or (stored.query_id, stored.batch_id) != (report.query_id, report.batch_id):
        return report
    outcome = stored.transaction_outcome.partition(",")[0]
    is_visible = outcome in set(CommitStatus) - {CommitStatus.ABORTED}
    is_new = report.transaction_outcome in {CommitStatus.COMMITTED, CommitStatus.EMPTY}
    if is_new or not is_visible:
        return report
    return replace(stored, status=report.status, error=report.error, transaction_outcome=outcome)


def _read_stored(path: str, folder: str | None) -> DeliveryReport | None:
    """Return the report in the file, or None if there is none."""
    try:
        return DeliveryReport.from_json(read_report(path, folder=folder))
    except ReportError:
        return None
