"""Folders for the reports of an application, a session and a stream.

Where the reports of a stream's micro-batches lie, so that no two streams share a path.

The first stream of an application that names a path in `reportPath` keeps it; another one gets a
subfolder of its own. Who came first stands in the folder that Spark makes for each application, as
a writer knows neither its query's id before its tasks have run, nor the other queries.
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

from py4j.protocol import Py4JError
from pyspark import SparkFiles

from spark_kafka_sink.common.secret import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.report.delivery_report import DeliveryReport


def query_id(checkpoint: str) -> str:
    """The id in the file `metadata` of Spark's StreamMetadata; empty where none can be read."""
    try:
        place = urlsplit(checkpoint)
        if not checkpoint or place.scheme not in ("", "file") or place.netloc:
            return ""
        folder = unquote(place.path) if place.scheme else checkpoint
        return str(json.loads((Path(folder) / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


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


_LOG = logging.getLogger("spark_kafka_sink")
_NUMBER = "{batchId}"
_FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """What a stream's options tell of its query; both are empty where they tell nothing."""

    query_name: str
    checkpoint: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Of the options as Spark hands them to a stream's writer, names in any case."""
        return cls(options.get("queryName", ""), options.get("checkpointLocation", ""))

    def is_other_than(self, stream: StreamIdentity) -> bool:
        """False also for a query that starts again, with its name or from its checkpoint."""
        return (
            self.is_known
            and self != stream
            and not (
                self.query_name == stream.query_name != ""
                or self.checkpoint == stream.checkpoint != ""
            )
        )

    @property
    def is_known(self) -> bool:
        """Whether the options tell anything."""
        return bool(self.query_name or self.checkpoint)

    @property
    def digest(self) -> str:
        """The same for each writer that Spark makes for the stream, and for no other stream."""
        return _digest(f"{self.query_name}\n{self.checkpoint}")

    @property
    def folder(self) -> str:
        """A name for a folder: the query's, or a hash."""
        if _FILE_NAME.fullmatch(self.query_name):
            return self.query_name
        return f"query-{_digest(self.query_name or self.checkpoint)}"


def micro_batch_path(path: str, batch_id: int) -> str:
    """Where a micro-batch's report lies, in the folder `path` or under a name with `{batchId}`."""
    named = path if _NUMBER in path else f"{path.rstrip('/')}/batch-{_NUMBER}.json"
    return named.replace(_NUMBER, str(batch_id))


def reports_folder(path: str) -> str:
    """The folder of a stream's `reportPath`, above the part with `{batchId}`."""
    head, number, _ = path.partition(_NUMBER)
    return (head.rpartition("/")[0] or ("/" if "/" in head else ".")) if number else path


def own_report_path(path: str, stream: StreamIdentity, owners: Path) -> str:
    """`path`, or one in a subfolder where another stream has `path` already.

    Args:
        path: of the option `reportPath`.
        stream: who asks; the first one to do so has the path.
        owners: a folder of the application, in which it is kept who has which path.
    """
    try:
        owner = _owner(owners / f"{_digest(path.rstrip('/'))}.stream", stream)
    except (OSError, ValueError):  # as in a folder that Spark is deleting
        return path
    return _within(path, stream.folder) if stream.is_other_than(owner) else path


def warn_of_own_path(path: str, own: str, owners: Path) -> None:
    """Say, once per application, that reports go to a path of the stream's own.

    Spark plans the micro-batches of a stream in more than one process.

    Args:
        path: of the option `reportPath`.
        own: where the reports go.
        owners: as for `own_report_path`.
    """
    try:
        (owners / f"{_digest(own)}.warned").touch(exist_ok=False)
    except OSError:  # it exists, or the folder is being deleted
        return
    _LOG.warning(
        "reportPath %s holds the reports of another stream of this application: those of this "
        "stream go to %s. Give each stream a folder of its own.",
        redacted(path),
        redacted(own),
    )


def _owner(file: Path, stream: StreamIdentity) -> StreamIdentity:
    """The stream that the file names; it is made with this one where there is none."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}-{uuid.uuid4().hex}")
        new.write_text(json.dumps(astuple(stream)))
        with suppress(FileExistsError):  # another stream came first
            os.link(new, file)
        new.unlink()
    query_name, checkpoint = json.loads(file.read_text())
    return StreamIdentity(query_name, checkpoint)


def _within(path: str, folder: str) -> str:
    """The same path with a folder more, above the part with `{batchId}`."""
    head, number, tail = path.partition(_NUMBER)
    if not number:
        return f"{path.rstrip('/')}/{folder}"
    above, slash, start = head.rpartition("/")
    return f"{above}{slash}{folder}/{start}{number}{tail}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
