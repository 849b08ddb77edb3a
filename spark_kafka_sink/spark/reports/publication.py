"""Publish a write on the driver: its summary, its report and its metrics.

The report is written to `reportPath`, and to the folder in which `last_report()` finds it.

Before any task runs, a test report is written, and the write fails if that is impossible. After
rows have been written to Kafka, such problems are only logged: if a commit raised, Spark would run
the micro-batch again and write duplicates, over and over while the disk is full.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.config.enums import SummaryMode
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.summary import summarize, summary_line
from spark_kafka_sink.report.export.exporters import export_metrics
from spark_kafka_sink.report.file_storage import (
    check_folder,
    delete_local_report,
    write_report,
)
from spark_kafka_sink.report.write_status import WriteStatus
from spark_kafka_sink.spark.reports.error_file import abort_reason
from spark_kafka_sink.spark.reports.report_folder import ReportFolder, keep_in_process
from spark_kafka_sink.spark.reports.report_paths import (
    micro_batch_folders,
    micro_batch_path,
    stream_reports_folder,
)
from spark_kafka_sink.spark.reports.retention import delete_old_reports, delete_old_statistics
from spark_kafka_sink.spark.reports.stored_reports import report_path_of, with_stored_counts
from spark_kafka_sink.spark.reports.write_origin import utc_timestamp
from spark_kafka_sink.spark.runtime import internals
from spark_kafka_sink.spark.runtime.log_lines import log_success

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin


_LOG = logging.getLogger(__name__)
_DELIVERED = (
    "tasks that did not finish are not counted; the others delivered these rows, which stay in "
    "Kafka"
)
_WOULD_BE_WRITTEN = "the tasks that finished would have written these rows"
_FAILED = "a task failed or the write was cancelled: see the exception that Spark raised"
_STOPPED = (
    "a task failed, or the query was stopped: if query.exception() is None, it was stopped, and "
    "its next start writes the micro-batch again"
)
_KEPT_FILES = "old files of the stream are kept"
"""Problem of a step that deletes old files."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Publishes one write or micro-batch."""

    config: SinkConfig
    name: str
    """The write in log messages."""
    origin: WriteOrigin
    batch_id: int | None = None
    startup_ms: int = 0
    """Milliseconds that the publishing worker took to start."""
    error: KafkaProdError | None = None
    """The error of a failed write, if the caller knows it; otherwise tasks may have stored one."""

    @classmethod
    def of(cls, config: SinkConfig, origin: WriteOrigin, batch_id: int | None = None) -> Self:
        """Return the publication of a batch write or a micro-batch.

        For a micro-batch, the option `reportPath` is a folder or a path that contains `{batchId}`.
        For a batch write, it is the path of the report.
        """
        startup = internals.startup_ms()
        if batch_id is None:
            name = "the dry run" if config.dry_run else "the write"
            return cls(config, name, origin, startup_ms=startup)
        name = _micro_batch_name(batch_id, origin.query_name)
        # A stream's micro-batch is committed by a different writer than the writer that planned it,
        # so the start time of this writer is wrong.
        unplanned = replace(origin, started_at="", started_s=0.0, startup_ms=0)
        return cls(config, name, unplanned, batch_id, startup)

    def announce(self) -> None:
        """Write a report with the status "running", which replaces the report of an earlier write.

        Raises:
            ReportError: the path is not writable.
        """
        if self.config.report_path is not None:
            report = DeliveryReport(
                status=WriteStatus.RUNNING, dry_run=self.config.dry_run, written_at=utc_timestamp()
            )
            write_report(self.config.report_path, report.to_json())

    def succeed(self, report: DeliveryReport) -> DeliveryReport:
        """Publish a successful write and return its complete report. Never raises."""
        whole = self._complete_report(report)
        _try_step("the summary cannot be logged", lambda: self._log_success(whole))
        self._store_report(whole)
        _try_step("metrics cannot be exported", lambda: export_metrics(whole, self.config))
        return whole

    def fail(self, report: DeliveryReport, outcome: str | None = None) -> None:
        """Publish a failed write, given the report of its finished tasks. Never raises.

        `outcome` describes what happened to the rows of these tasks if they do not stay in Kafka.
        """
        outcome = outcome or (_WOULD_BE_WRITTEN if self.config.dry_run else _DELIVERED)
        of_task = self.origin.error_file.take()
        known = of_task if self.error is None else abort_reason(self.error)
        error = known or (_FAILED if self.batch_id is None else _STOPPED)
        failed = replace(
            self._complete_report(self._with_start(report)), status=WriteStatus.FAILED, error=error
        )
        _try_step("the summary cannot be logged", lambda: self._log_failure(outcome, failed))
        self._store_report(failed)

    def _with_start(self, report: DeliveryReport) -> DeliveryReport:
        """Return the report with the time of planning, which is missing if no task finished."""
        if report.started_at or self.batch_id is None:
            return report
        return replace(report, started_at=self.origin.planning_file.read().at)

    def _summary_mode(self, default: SummaryMode) -> SummaryMode:
        summary = self.config.summary
        return default if summary is SummaryMode.AUTO else summary

    def _default_summary(self, report: DeliveryReport) -> SummaryMode:
        """Return the default of the option `summary` for a successful write."""
        if internals.only_errors_are_logged():
            return SummaryMode.OFF
        return SummaryMode.FULL if report.batch_id is None else SummaryMode.LINE

    def _log_success(self, report: DeliveryReport) -> None:
        """Log the summary, as a warning only if rows were dropped."""
        summary = self._summary_mode(self._default_summary(report))
        text = _log_text(f"{self._name_of(report)} is done", report, summary)
        if text and report.dropped:
            _LOG.warning("%s", text)
        elif text:
            log_success(text, watched=internals.is_watched())

    def _log_failure(self, outcome: str, report: DeliveryReport) -> None:
        text = _log_text(
            f"{self._name_of(report)} failed; {outcome}",
            report,
            self._summary_mode(SummaryMode.FULL),
        )
        if text:
            _LOG.warning("%s", text)

    def _name_of(self, report: DeliveryReport) -> str:
        """Return the name for log messages, with the micro-batch of a write within foreachBatch."""
        if self.batch_id is not None or report.batch_id is None:
            return self.name
        return f"{self.name} of {_micro_batch_name(report.batch_id, report.query_name)}"

    def _complete_report(self, report: DeliveryReport) -> DeliveryReport:
        """Add what only the driver can determine: the identity and the duration of the write."""
        completed = self.origin.completed(report, self.batch_id)
        startup = max(self.origin.startup_ms, report.startup_ms) + self.startup_ms
        return replace(completed, dry_run=self.config.dry_run, startup_ms=startup)

    def _store_report(self, report: DeliveryReport) -> None:
        trouble = f"no report of {self.name} was written; data in Kafka is unaffected"
        _try_step(trouble, lambda: self._write_report(report))
        _try_step("last_report() will not find this write", lambda: _store_for_session(report))
        _try_step(_KEPT_FILES, lambda: self._delete_old_files(report))

    def _delete_old_files(self, report: DeliveryReport) -> None:
        path, statistics = self.config.report_path, self.config.statistics_path
        if statistics is not None:
            delete_old_statistics(report, statistics)
        if path is not None and self.batch_id is not None:
            path_of = partial(report_path_of, path, self.origin, query_id=report.query_id)
            delete_old_reports(report, path_of, micro_batch_folders(path))

    def _write_report(self, report: DeliveryReport) -> None:
        path, folder = self.config.report_path, None
        if path is None:
            return
        if self.batch_id is not None:
            folder = stream_reports_folder(path)
            path = report_path_of(path, self.origin, self.batch_id, report.query_id)
        try:
            complete_report = with_stored_counts(report, path, folder)
            write_report(path, complete_report.to_json(), folder=folder)
        except Exception:
            # Its status would remain "running".
            delete_local_report(path, folder=folder)
            raise


def _micro_batch_name(batch_id: int, query_name: str) -> str:
    return f"micro-batch {batch_id}" + (f" of {query_name}" if query_name else "")


def _log_text(outcome: str, report: DeliveryReport, summary: SummaryMode) -> str:
    """Return the text to log about a write; empty if nothing is logged."""
    if summary is SummaryMode.LINE:
        return f"{outcome}: {summary_line(report)}"
    return f"{outcome}:\n{summarize(report)}" if summary is SummaryMode.FULL else ""


def check_report_folder(config: SinkConfig, here: ReportFolder | None) -> None:
    """Check once per application, before a micro-batch, that reports can be written.

    A folder that becomes invalid later must not stop a query, and Spark plans its micro-batches in
    several processes.

    Raises:
        ReportError: the folder is not writable.
    """
    if config.report_path is None:
        return
    path = stream_reports_folder(config.report_path)
    if here is None or not here.is_checked(path):
        check_folder(path)
    if here is not None:
        here.set_checked(path)


def delete_reports_of_foreach_batch(report: DeliveryReport, path: str) -> None:
    """Delete old reports of the query after a micro-batch of `micro_batch_writer`. Never raises.

    Args:
        report: the report of the micro-batch.
        path: a folder, or a path that contains `{batchId}`.
    """
    path_of = partial(micro_batch_path, path)
    _try_step(_KEPT_FILES, lambda: delete_old_reports(report, path_of, micro_batch_folders(path)))


def _store_for_session(report: DeliveryReport) -> None:
    folder = ReportFolder.here()
    if folder is None:
        keep_in_process(report)
    else:
        folder.store(report)


def _try_step(trouble: str, step: Callable[[], None]) -> None:
    """Run a step that follows delivery, and log any exception."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - see the module docstring
        with suppress(Exception):  # For example, a logger's stream is closed.
            _LOG.warning("%s: %s", trouble, error)
