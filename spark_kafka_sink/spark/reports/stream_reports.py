"""Where the reports of a stream's micro-batches lie, so that no two streams share a path.

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
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.common.credentials import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
