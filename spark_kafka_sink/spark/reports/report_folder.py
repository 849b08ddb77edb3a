"""The folder of the latest reports of an application or a Spark session."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.spark.reports.report_paths import digest
from spark_kafka_sink.spark.runtime import internals

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from spark_kafka_sink.report.delivery_report import DeliveryReport

_NAME = ".kafkaprod"
_BATCH = "batch.json"
kept_in_process: dict[str, DeliveryReport] = {}
"""The last report of the batch writes, and of each query, if this process has no folder."""


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """The report of the last batch write, and of each query's last micro-batch.

    With Spark Connect, a query has its own Spark session and folder, which the session that started
    the query cannot find. Therefore the reports of queries are stored in the application's folder.
    """

    path: Path
    """Folder of the application, or of the session with Spark Connect."""
    application: Path

    @classmethod
    def here(cls) -> Self | None:
        """Return the folder of this process, a driver or a Python worker; None without Spark.

        In a task, it is a folder of the executor, and its reports are never read.
        """
        files = internals.files_folder()
        return None if files is None else cls.of(files)

    @classmethod
    def of(cls, files: Path) -> Self:
        """Return the folder within the folder of the files that Spark ships."""
        return cls(files / _NAME, internals.application_folder(files) / _NAME)

    def store(self, report: DeliveryReport) -> None:
        """Store a report; it replaces the earlier report.

        Raises:
            ReportError: the report cannot be written.
        """
        from spark_kafka_sink.report.file_storage import write_report  # not for planning

        name = _file_name(report)
        folder = self.path if name == _BATCH else self.application
        write_report(str(folder / name), report.to_json(compact=True))

    def reports(self, *, queries: bool = True) -> list[DeliveryReport]:
        """Return all stored reports.

        Args:
            queries: include the reports of the application's queries, in any Spark session.

        Raises:
            ReportError: a report cannot be read.
        """
        from spark_kafka_sink.report.delivery_report import DeliveryReport
        from spark_kafka_sink.report.file_storage import read_report  # not for planning

        folders = {self.path, self.application} if queries else {self.path}
        files = sorted(file for folder in folders for file in folder.glob("*.json"))
        return [DeliveryReport.from_json(read_report(str(file))) for file in files]

    def is_checked(self, path: str) -> bool:
        """Return True if a process of the application has found this folder to be writable."""
        return self._writable_mark(path).exists()

    def set_checked(self, path: str) -> None:
        """Record that this folder is writable."""
        with suppress(OSError):  # For example, Spark is deleting the folder.
            self.application.mkdir(parents=True, exist_ok=True)
            self._writable_mark(path).touch()

    def _writable_mark(self, path: str) -> Path:
        return self.application / f"{digest(path)}.writable"


def report_folder() -> Path | None:
    """Return the path of `ReportFolder.here()`, or None without Spark."""
    folder = ReportFolder.here()
    return None if folder is None else folder.path


def keep_in_process(report: DeliveryReport) -> None:
    """Keep a report in this process, which has no folder: a client of Spark Connect."""
    kept_in_process[_file_name(report)] = report


def latest(
    reports: Iterable[DeliveryReport], *, query_id: str = "", query_name: str = ""
) -> DeliveryReport | None:
    """Return the newest report: of all reports, or of the query with this id or name.

    If a micro-batch failed before any of its tasks finished, its report contains only the query's
    name. Therefore, if both id and name are given, reports without an id are matched by name.
    """

    def matches(report: DeliveryReport) -> bool:
        if query_id and report.query_id:
            return report.query_id == query_id
        return report.query_name == query_name if query_name else not query_id

    return max(filter(matches, reports), key=lambda candidate: candidate.written_at, default=None)


def _file_name(report: DeliveryReport) -> str:
    """Return a file name that is unique to the report's query.

    The name is a hash, because a query's name can contain any character.
    """
    if not report.query_id and not report.query_name and report.batch_id is None:
        return _BATCH
    key = f"{report.query_id}\n{report.query_name}"
    return f"query-{digest(key)}.json"
