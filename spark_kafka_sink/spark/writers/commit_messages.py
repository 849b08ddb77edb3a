"""The commit messages of tasks, and how they are merged into the report of the write."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.recreated_topics import WrittenTopic, check_recreated
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.enums import ReportTasks
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.packed_report import AnyReport, PackedReport, merge_reports
from spark_kafka_sink.spark.runtime.continuous_processing import CONTINUOUS_HINT

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class CommitMessage:
    """Delivery report of a task whose rows are acknowledged, with the version of this package."""

    report: AnyReport
    """The report; packed if a task sent the message."""
    written: tuple[WrittenTopic, ...] = field(default=(), kw_only=True)
    """The topics to which the acknowledged rows were written."""
    startup_ms: int = field(default=0, kw_only=True)
    """Total startup time of the Python workers that planned the write and ran the task, in
    milliseconds.
    """

    def __getstate__(self) -> dict[str, object]:
        report = self.report
        packed = report if isinstance(report, PackedReport) else PackedReport.of(report)
        return {**vars(self), "report": packed}


def complete_report(
    messages: Sequence[object], tasks: ReportTasks = ReportTasks.SLOWEST
) -> DeliveryReport:
    """Return the merged report of all tasks, before the write is committed.

    Raises:
        DeliveryError: a partition has no delivery report, because Spark did not pass its rows to
            this package; or a topic was recreated between two tasks.
    """
    unknown = [message for message in messages if not isinstance(message, CommitMessage)]
    if unknown:
        kinds = sorted({type(message).__name__ for message in unknown})
        raise DeliveryError(
            f"no delivery report for {len(unknown)} of {plural(len(messages), 'partition')} "
            f"({', '.join(kinds)}): their rows were not written, and the write is not committed",
            hint=CONTINUOUS_HINT,
        )
    check_recreated(written_topics(messages))
    return finished_report(messages, tasks)


def written_topics(messages: Sequence[object]) -> list[WrittenTopic]:
    """Return the topics that the tasks have written to, once for each task."""
    known = [message for message in messages if isinstance(message, CommitMessage)]
    return [topic for message in known for topic in message.written]


def finished_report(
    messages: Sequence[object], tasks: ReportTasks = ReportTasks.SLOWEST
) -> DeliveryReport:
    """Return the merged report of a failed write's finished tasks."""
    known = [message for message in messages if isinstance(message, CommitMessage)]
    report = _merge_reports([message.report for message in known], tasks)
    return replace(report, startup_ms=max((message.startup_ms for message in known), default=0))


def _merge_reports(reports: list[AnyReport], tasks: ReportTasks) -> DeliveryReport:
    """Merge all reports. Never raises, because the reported rows are in Kafka.

    Executors with a different version of this package may send reports that cannot be merged.
    """
    try:
        return merge_reports(reports, lambda report: _with_lines(report, tasks))
    except Exception:  # noqa: BLE001 - another version may omit anything
        return _sum_of_valid(reports)


def _with_lines(report: DeliveryReport, tasks: ReportTasks) -> DeliveryReport:
    """Limit the report of a single task to the configured number of task lines."""
    if tasks is ReportTasks.SLOWEST:
        return report
    lines = report.slowest if tasks is ReportTasks.ALL else ()
    return replace(report, slowest=lines, task_reports=lines)


def _sum_of_valid(reports: list[AnyReport]) -> DeliveryReport:
    """Merge the valid reports. If some are invalid, `error` contains their number."""
    total = DeliveryReport()
    reasons = []
    for report in reports:
        try:
            total = merge_reports((total, report))
        except Exception as error:  # noqa: BLE001 - as above
            reasons.append(f"{type(error).__name__} {error}")
    if not reasons:
        return total
    problem = f"{len(reasons)} of {len(reports)} tasks' reports cannot be merged: {reasons[0]}"
    return replace(total, error=problem)
