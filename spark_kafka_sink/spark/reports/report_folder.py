"""The folder where the latest reports of an application, or a session of Connect, lie."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from py4j.protocol import Py4JError
from pyspark import SparkFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.report.delivery_report import DeliveryReport

_NAME = ".kafkaprod"
_BATCH = "batch.json"
_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""How Spark Connect names the folder of a session, or of a query, in that of the application."""


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """One report of the last batch write, and one of each query's last micro-batch.

    With Spark Connect a query has a session, and so a folder, of its own, which the session that
    started it does not know: reports of queries lie in the application's folder.
    """

    path: Path
    """Of the application, or with Spark Connect of the session."""
    application: Path

    @classmethod
    def here(cls) -> Self | None:
        """That of this process: the driver's, or a Python worker's beside it; None without Spark.

        In a task it is a folder of the executor, where nobody looks.
        """
        try:
            return cls.of(Path(SparkFiles.getRootDirectory()))
        except (AssertionError, AttributeError, Py4JError, TypeError):  # none yet, or stopped
            return None

    @classmethod
    def of(cls, files: Path) -> Self:
        """Of the folder of the files that Spark ships."""
        application = files.parent if _SESSION.fullmatch(files.name) else files
        return cls(files / _NAME, application / _NAME)

    def keep(self, report: DeliveryReport) -> None:
        """Put a report in place of the one before.

        Raises:
            ReportError: it can't be written.
        """
        from spark_kafka_sink.report.storage import write_report  # not where a write is planned

        name = _file_name(report)
        folder = self.path if name == _BATCH else self.application
        write_report(str(folder / name), report.to_json(compact=True))

    def reports(self, *, queries: bool = True) -> list[DeliveryReport]:
        """All of them.

        Args:
            queries: of the application's queries, too, whoever has started them.

        Raises:
            ReportError: one can't be read.
        """
        from spark_kafka_sink.report.delivery_report import DeliveryReport
        from spark_kafka_sink.report.storage import read_report  # as above

        folders = {self.path, self.application} if queries else {self.path}
        files = sorted(file for folder in folders for file in folder.glob("*.json"))
        return [DeliveryReport.from_json(read_report(str(file))) for file in files]


def report_folder() -> Path | None:
    """The path of `ReportFolder.here`."""
    folder = ReportFolder.here()
    return None if folder is None else folder.path


def latest(
    reports: Iterable[DeliveryReport], *, query_id: str = "", query_name: str = ""
) -> DeliveryReport | None:
    """The newest of all reports, or of those of the query that has this id, or this name.

    A failed micro-batch without a finished task knows its query's name alone: with both given, its
    name counts where it has no id.
    """

    def wanted(report: DeliveryReport) -> bool:
        if query_id and report.query_id:
            return report.query_id == query_id
        return report.query_name == query_name if query_name else not query_id

    return max(filter(wanted, reports), key=lambda each: each.written_at, default=None)


def _file_name(report: DeliveryReport) -> str:
    """One file for each query; its name may hold anything, and its id comes from a task."""
    if not report.query_id and not report.query_name and report.batch_id is None:
        return _BATCH
    key = f"{report.query_id}\n{report.query_name}"
    return f"query-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
