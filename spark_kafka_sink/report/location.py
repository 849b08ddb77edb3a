"""Where a report can lie: a local path, or a URI of a file system that pyarrow.fs knows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from spark_kafka_sink.common.credentials import redacted
from spark_kafka_sink.common.errors import ReportError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_REMOTE = frozenset({"s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "mock"})
_INSTEAD = {
    "dbfs": "write it as /dbfs/..., or as /Volumes/catalog/schema/volume/...",
    "s3a": "write it as s3://...; credentials come from the environment (AWS_*), not from Spark",
    "s3n": "write it as s3://...; credentials come from the environment (AWS_*), not from Spark",
    "wasb": "write it as abfs://...",
    "wasbs": "write it as abfss://...",
}
_FOLDERS = frozenset({"hdfs", "viewfs", "mock"})


@dataclass(frozen=True, slots=True)
class ReportLocation:
    """A path or URI and its scheme; `file` is a local path."""

    path: str
    scheme: str

    @classmethod
    def of(cls, path: str, subject: str = "the delivery report") -> ReportLocation:
        """The location that a user gives for `subject`; nothing is looked up.

        Raises:
            ReportError: the scheme is of no known file system; it says what to use instead.
        """
        found = _SCHEME.match(path)
        scheme = found[1].lower() if found else "file"
        if scheme != "file" and scheme not in _REMOTE:
            known = ", ".join(f"{name}://" for name in sorted(_REMOTE - {"mock"}))
            raise ReportError(
                f"{subject} can't be written to {redacted(path)}: "
                f"{scheme}: is no file system known here",
                hint=_INSTEAD.get(scheme, f"use a local path, or one of {known}"),
            )
        return cls(path, scheme)

    @property
    def local(self) -> Path | None:
        """The local path, None where the location is remote."""
        if self.scheme != "file":
            return None
        path = self.path
        if path.lower().startswith("file:/"):
            path = unquote(urlsplit(path).path)
        return Path(path).expanduser().absolute()

    @property
    def has_folders(self) -> bool:
        """Whether folders must be created; object stores have none."""
        return self.scheme in _FOLDERS

    def connect(self) -> tuple[FileSystem, str]:
        """The remote file system and the path in it; may take any time, or fail as Arrow does."""
        from pyarrow.fs import FileSystem  # a local report needs no Arrow

        return FileSystem.from_uri(self.path)
