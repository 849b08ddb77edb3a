"""Folders for the reports of an application, a Spark session and a stream.

No two streams of an application write reports to the same path. The first stream with a given
`reportPath` writes to this path; any other stream gets a subfolder. The first stream is recorded in
the folder that Spark creates for each application, because a writer has no access to other queries,
and does not know the id of its query before the tasks have run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import uuid
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from spark_kafka_sink.common.secret import redacted, split_query
from spark_kafka_sink.spark.runtime import internals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.report.delivery_report import DeliveryReport

_NAME = ".kafkaprod"
_BATCH = "batch.json"
kept_in_process: dict[str, DeliveryReport] = {}
"""The last report of the batch writes, and of each query, if this process has no folder."""
_LOG = logging.getLogger("spark_kafka_sink")
_NUMBER = "{batchId}"
_FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


def query_id(checkpoint: str) -> str:
    """Return the query id from the checkpoint's `metadata` file (Spark's StreamMetadata).

    Returns an empty string if the file cannot be read.
    """
    try:
        url = urlsplit(checkpoint)
        if not checkpoint or url.scheme not in ("", "file") or url.netloc:
            return ""
        folder = unquote(url.path) if url.scheme else checkpoint
        return str(json.loads((Path(folder) / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


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
        # Imported here because planning a write does not need it.
        from spark_kafka_sink.report.report_storage import write_report

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
        from spark_kafka_sink.report.report_storage import read_report  # not needed to plan a write

        folders = {self.path, self.application} if queries else {self.path}
        files = sorted(file for folder in folders for file in folder.glob("*.json"))
        return [DeliveryReport.from_json(read_report(str(file))) for file in files]

    def is_checked(self, path: str) -> bool:
        """Return True if a process of the application has found this folder to be writable."""
        return self._mark(path).exists()

    def set_checked(self, path: str) -> None:
        """Record that this folder is writable."""
        with suppress(OSError):  # For example, Spark is deleting the folder.
            self.application.mkdir(parents=True, exist_ok=True)
            self._mark(path).touch()

    def _mark(self, path: str) -> Path:
        return self.application / f"{_digest(path)}.writable"


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
    return f"query-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """Details of a stream's query, from its options. Fields are empty if the option is not set."""

    query_name: str
    checkpoint: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the identity from the options that Spark passes to a stream's writer."""
        return cls(options.get("queryName", ""), options.get("checkpointLocation", ""))

    def differs_from(self, stream: StreamIdentity) -> bool:
        """Return True for a different query.

        Names are compared only if a checkpoint is unknown, because a query can be renamed, and
        several queries can have the same name one after the other.
        """
        if self.checkpoint and stream.checkpoint:
            return self.checkpoint != stream.checkpoint
        return self.is_known and self.query_name != stream.query_name

    @property
    def is_known(self) -> bool:
        """True if the options identify the query."""
        return bool(self.query_name or self.checkpoint)

    @property
    def digest(self) -> str:
        """A hash that is unique to the stream and the same for all of its writers."""
        return _digest(f"{self.query_name}\n{self.checkpoint}")

    @property
    def folder(self) -> str:
        """Name for a subfolder: the query's name, or a hash."""
        if _FILE_NAME.fullmatch(self.query_name):
            return self.query_name
        return f"query-{_digest(self.query_name or self.checkpoint)}"


def micro_batch_path(path: str, batch_id: int) -> str:
    """Return the path of a micro-batch's report; `path` is a folder or contains `{batchId}`."""
    base, query = split_query(path)
    named = base if _NUMBER in base else f"{base.rstrip('/')}/batch-{_NUMBER}.json"
    return named.replace(_NUMBER, str(batch_id)) + query


def stream_reports_folder(path: str) -> str:
    """Return the folder of a stream's `reportPath`: the part above the one with `{batchId}`."""
    base, query = split_query(path)
    head, number, _ = base.partition(_NUMBER)
    if not number:
        return path
    return (head.rpartition("/")[0] or ("/" if "/" in head else ".")) + query


def own_report_path(path: str, stream: StreamIdentity, owners: Path) -> str:
    """Return `path`, or a path in a subfolder if another stream already uses `path`.

    Args:
        path: the value of the option `reportPath`.
        stream: the stream that will write its reports; the first stream gets `path`.
        owners: folder of the application that records the owner of each path.
    """
    try:
        for own in (path, path_within(path, stream.folder)):
            owner = _owner(owners / f"{_digest(_without_slash(own))}.stream", stream)
            if not stream.differs_from(owner):
                return own
    except (OSError, ValueError):  # For example, Spark is deleting the folder.
        return path
    return path_within(path, f"query-{stream.digest}")  # Another query has the same name.


def warn_of_own_path(path: str, own: str, owners: Path) -> None:
    """Warn once per application that the stream's reports are written to a different path.

    A warning once per process would not suffice, because Spark plans a stream's micro-batches in
    several processes.

    Args:
        path: the value of the option `reportPath`.
        own: the path to which the reports are written.
        owners: see `own_report_path`.
    """
    try:
        (owners / f"{_digest(own)}.warned").touch(exist_ok=False)
    except OSError:  # The file exists, or the folder is being deleted.
        return
    _LOG.warning(
        "reportPath %s is used by another stream of this application: the reports of this stream "
        "are written to %s. Set a different reportPath for each stream.",
        redacted(path),
        redacted(own),
    )


def _owner(file: Path, stream: StreamIdentity) -> StreamIdentity:
    """Return the stream that the file records; if there is no file, record `stream`."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}-{uuid.uuid4().hex}")
        new.write_text(json.dumps(astuple(stream)), encoding="utf-8")
        try:
            with suppress(FileExistsError):  # Another stream created the file in the meantime.
                _create(file, new)
        finally:
            new.unlink()
    query_name, checkpoint = json.loads(file.read_text(encoding="utf-8"))
    return StreamIdentity(query_name, checkpoint)


def _create(file: Path, content: Path) -> None:
    """Create a file with the content of another one; raise FileExistsError if it exists."""
    try:
        os.link(content, file)
    except FileExistsError:
        raise
    except OSError:  # The file system has no hard links.
        with file.open("x", encoding="utf-8") as new:
            new.write(content.read_text(encoding="utf-8"))


def path_within(path: str, folder: str) -> str:
    """Return the path with an added folder above the part that contains `{batchId}`."""
    base, query = split_query(path)
    head, number, tail = base.partition(_NUMBER)
    if not number:
        return f"{base.rstrip('/')}/{folder}{query}"
    above, slash, start = head.rpartition("/")
    return f"{above}{slash}{folder}/{start}{number}{tail}{query}"


def _without_slash(path: str) -> str:
    base, query = split_query(path)
    return base.rstrip("/") + query


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
