"""The paths to which streams write their reports.

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
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from spark_kafka_sink.common.masking import redact_uri, split_query

if TYPE_CHECKING:
    from collections.abc import Mapping


_LOG = logging.getLogger(__name__)
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
        return digest(f"{self.query_name}\n{self.checkpoint}")

    @property
    def folder(self) -> str:
        """Name for a subfolder: the query's name, or a hash."""
        if _FILE_NAME.fullmatch(self.query_name):
            return self.query_name
        return f"query-{digest(self.query_name or self.checkpoint)}"


def micro_batch_path(path: str, batch_id: int) -> str:
    """Return the path of a micro-batch's report; `path` is a folder or contains `{batchId}`."""
    base, query = split_query(path)
    numbered = base if _NUMBER in base else f"{base.rstrip('/')}/batch-{_NUMBER}.json"
    return numbered.replace(_NUMBER, str(batch_id)) + query


def micro_batch_folders(path: str) -> int:
    """Return how many folders contain the report of one micro-batch only, by `{batchId}`."""
    tail = split_query(path)[0].partition(_NUMBER)[2]
    return len(PurePath(f"{_NUMBER}{tail}").parents) - 1


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
        for candidate in (path, path_within(path, stream.folder)):
            owner = _claim_for(owners / f"{digest(_without_slash(candidate))}.stream", stream)
            if not stream.differs_from(owner):
                return candidate
    except (OSError, ValueError):  # For example, Spark is deleting the folder.
        return path
    return path_within(path, f"query-{stream.digest}")  # Another query has the same name.


def warn_of_own_path(path: str, own_path: str, owners: Path) -> None:
    """Warn once per application that the stream's reports are written to a different path.

    A warning once per process would not suffice, because Spark plans a stream's micro-batches in
    several processes.

    Args:
        path: the value of the option `reportPath`.
        own_path: the path to which the reports are written.
        owners: see `own_report_path`.
    """
    try:
        (owners / f"{digest(own_path)}.warned").touch(exist_ok=False)
    except OSError:  # The file exists, or the folder is being deleted.
        return
    _LOG.warning(
        "reportPath %s is used by another stream of this application: the reports of this stream "
        "are written to %s. Set a different reportPath for each stream.",
        redact_uri(path),
        redact_uri(own_path),
    )


def _claim_for(file: Path, stream: StreamIdentity) -> StreamIdentity:
    """Return the stream that the file records; if there is no file, record `stream`."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}-{uuid.uuid4().hex}")
        new.write_text(json.dumps(astuple(stream)), encoding="utf-8")
        try:
            with suppress(FileExistsError):  # Another stream created the file in the meantime.
                _create_copy(file, new)
        finally:
            new.unlink()
    query_name, checkpoint = json.loads(file.read_text(encoding="utf-8"))
    return StreamIdentity(query_name, checkpoint)


def _create_copy(file: Path, content: Path) -> None:
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


def digest(text: str) -> str:
    """Return a short hash for a file name."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
