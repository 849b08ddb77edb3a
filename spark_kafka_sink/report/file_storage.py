"""Write and read reports and statistics on any file system that pyarrow.fs supports.

Local files are replaced atomically, as are objects of an object store. Each call has a time limit,
because a remote file system without network or credentials might retry for minutes.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.common.local_path import absolute_path
from spark_kafka_sink.common.masking import redact_uri, redact_uris, split_query
from spark_kafka_sink.common.time_limit import run_with_timeout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyarrow.fs import FileSystem


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_OTHER_HOST = re.compile(r"file://(?!localhost(/|$)|/|$)", re.IGNORECASE)
_REMOTE = frozenset({"s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "mock"})
_INSTEAD = {
    "dbfs": "write it as /dbfs/..., or as /Volumes/catalog/schema/volume/...",
    "s3a": "write it as s3://...; credentials come from the environment (AWS_*), not from Spark",
    "s3n": "write it as s3://...; credentials come from the environment (AWS_*), not from Spark",
    "wasb": "write it as abfs://...",
    "wasbs": "write it as abfss://...",
}
_FOLDERS = frozenset({"hdfs", "viewfs", "mock"})
T = TypeVar("T")
TIMEOUT_S = 30.0
"""Default time limit of a read or write in seconds."""
_HINT = "Check the path, the permissions, and the file system's own configuration."
_UNREADABLE = "the delivery report cannot be read from"
_PROBE = ".kafkaprod-probe"
_PROBE_DATA = b"spark-kafka-sink checks whether it can write reports here.\n" * 64


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A path or URI and its scheme; the scheme of a local path is `file`."""

    path: str
    scheme: str

    @classmethod
    def of(cls, path: str, subject: str = "the delivery report") -> FileLocation:
        """Parse the location that a user specified for `subject`, without accessing it.

        Raises:
            ReportError: the scheme's file system is not supported, or a `file:` URI names another
                host; the hint suggests an alternative.
        """
        match = _SCHEME.match(path)
        scheme = match[1].lower() if match else "file"
        if scheme != "file" and scheme not in _REMOTE:
            known = ", ".join(f"{name}://" for name in sorted(_REMOTE - {"mock"}))
            raise ReportError(
                f"{subject} cannot be written to {redact_uri(path)}: "
                f"the file system {scheme}: is not supported",
                hint=_INSTEAD.get(scheme, f"use a local path, or one of {known}"),
            )
        if _OTHER_HOST.match(path):
            raise ReportError(
                f"{subject} cannot be written to {redact_uri(path)}: file:// is followed by a host",
                hint="Write a local path as file:///path.",
            )
        return cls(path, scheme)

    @property
    def local(self) -> Path | None:
        """The local path, or None if the location is remote."""
        if self.scheme != "file":
            return None
        path = self.path
        if path.lower().startswith("file:"):
            path = unquote(urlsplit(path).path)
        return absolute_path(path, ReportError)

    def storage(self, folder: str | None) -> str:
        """Return an id of the storage: the remote file system, or the local folder.

        The local folder is `folder`, or the file's parent by default.
        """
        if self.local is not None:
            return folder or str(self.local.parent)
        return f"{self.scheme}://{urlsplit(self.path).netloc}{split_query(self.path)[1]}"

    @property
    def has_folders(self) -> bool:
        """True if folders must be created; object stores have no folders."""
        return self.scheme in _FOLDERS

    def connect(self) -> tuple[FileSystem, str]:
        """Return the remote file system and the path within it.

        This can block, or raise Arrow's errors.
        """
        from pyarrow.fs import FileSystem  # A local report does not need Arrow.

        return FileSystem.from_uri(self.path)


def write_report(
    path: str,
    text: str,
    *,
    timeout_s: float = TIMEOUT_S,
    subject: str = "the delivery report",
    folder: str | None = None,
) -> None:
    """Write `text` to a local path or a URI.

    Create the folder if needed, and replace an existing file.

    Args:
        path: the local path or URI.
        text: the file's new content.
        timeout_s: time limit in seconds.
        subject: name of the text in error messages.
        folder: folder that contains all files of the same writer. If a call does not respond, later
            calls with the same folder, or with the same remote file system, fail immediately. By
            default, the folder is the file's parent.

    Raises:
        ReportError: the text cannot be written there, or not within the time limit.
    """
    location = FileLocation.of(path, subject)
    data = text.encode()
    problem = f"{subject} cannot be written to"
    _attempt(problem, path, timeout_s, lambda: _write_bytes(location, data), folder)


def delete_local_report(path: str, folder: str | None = None) -> None:
    """Delete the local file that `write_report` would replace. Raises no ReportError.

    See `write_report` for `folder`.
    """
    with suppress(ReportError):
        file = FileLocation.of(path).local
        if file is not None:
            problem = "the delivery report cannot be deleted from"
            _attempt(problem, path, TIMEOUT_S, lambda: _delete(file), folder)


def _delete(file: Path) -> None:
    if file.is_file():  # Not a device, a pipe or a folder.
        file.resolve().unlink()


def delete_file(path: str, folders: int = 0) -> None:
    """Delete a file, and those of its `folders` nearest parent folders that become empty.

    Raises:
        ReportError: the file cannot be deleted, or not within the time limit.
    """
    location = FileLocation.of(path)
    problem = "the old file cannot be deleted:"
    _attempt(problem, path, TIMEOUT_S, lambda: _delete_at(location, folders))


def delete_files(folder: str, is_chosen: Callable[[str], bool]) -> None:
    """Delete the files in a folder whose name is chosen. A missing folder has no files.

    Raises:
        ReportError: the folder cannot be listed, a file cannot be deleted, or not within the time
            limit.
    """
    location = FileLocation.of(folder)

    def delete() -> None:
        if location.local is not None:
            for file in location.local.glob("*"):
                if is_chosen(file.name):
                    file.unlink(missing_ok=True)
            return
        from pyarrow.fs import FileSelector  # see _arrow_error

        filesystem, target = location.connect()
        for file_info in filesystem.get_file_info(FileSelector(target, allow_not_found=True)):
            if is_chosen(file_info.base_name):
                filesystem.delete_file(file_info.path)

    _attempt("old files cannot be deleted from", folder, TIMEOUT_S, delete)


def _delete_at(location: FileLocation, folders: int) -> None:
    if location.local is not None:
        _delete(location.local)
        with suppress(OSError):  # A folder is not empty, or is a link.
            for folder in location.local.parents[:folders]:
                folder.rmdir()
        return
    from pyarrow.fs import FileSelector  # see _arrow_error

    filesystem, target = location.connect()
    filesystem.delete_file(target)
    for _ in range(folders if location.has_folders else 0):
        target = target.rpartition("/")[0]
        if filesystem.get_file_info(FileSelector(target)):
            return
        filesystem.delete_dir(target)


def read_report(path: str, timeout_s: float = TIMEOUT_S, folder: str | None = None) -> str:
    """Return the text at a local path or a URI. See `write_report` for `folder`.

    Raises:
        ReportError: the text cannot be read, or not within the time limit.
    """
    location = FileLocation.of(path)
    return _attempt(_UNREADABLE, path, timeout_s, lambda: _read_bytes(location).decode(), folder)


def read_reports(path: str, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """Return the text at a local path or a URI, or each `*.json` text in a folder, by location.

    Raises:
        ReportError: there is no report, or a report cannot be read within the time limit.
    """
    location = FileLocation.of(path)
    texts = _attempt(_UNREADABLE, path, timeout_s, lambda: _read_all(location, redact_uri(path)))
    if not texts:
        raise ReportError(
            f"no delivery report in the folder {redact_uri(path)}",
            hint="The reportPath of a stream contains batch-<id>.json for each micro-batch.",
        )
    return texts


def check_folder(path: str, timeout_s: float = TIMEOUT_S) -> None:
    """Check that reports can be written to a folder, by writing and deleting a small file.

    Raises:
        ReportError: no report can be written there.
    """
    folder, query = split_query(path)
    location = FileLocation.of(f"{folder.rstrip('/')}/{_PROBE}{query}")
    problem = "the delivery report cannot be written to"
    _attempt(problem, path, timeout_s, lambda: _write_probe(location), path)


def _attempt(
    problem: str, path: str, timeout_s: float, call: Callable[[], T], folder: str | None = None
) -> T:
    try:
        return run_with_timeout(timeout_s, FileLocation.of(path).storage(folder), call)
    except (OSError, ValueError, _arrow_error()) as error:
        displayed_path = redact_uri(path)
        # Arrow's messages contain the URI, or URLs made of its parts, including credentials.
        reason = redact_uris(str(error).replace(path, displayed_path))
        cause = error if reason == str(error) else None
        raise ReportError(f"{problem} {displayed_path}: {reason}", hint=_HINT) from cause


def _arrow_error() -> type[Exception]:
    """Return the class of pyarrow's errors. pyarrow is loaded only when this is called."""
    from pyarrow import ArrowException

    return ArrowException


def _read_bytes(location: FileLocation) -> bytes:
    if location.local is not None:
        return location.local.read_bytes()
    filesystem, target = location.connect()
    with filesystem.open_input_stream(target) as stream:
        return bytes(stream.read())


def _read_all(location: FileLocation, displayed_path: str) -> dict[str, str]:
    if location.local is not None:
        if not location.local.is_dir():
            return {displayed_path: _decode_text(_read_bytes(location))}
        return {
            str(file): _decode_text(file.read_bytes())
            for file in sorted(location.local.glob("*.json"))
        }
    from pyarrow.fs import FileSelector, FileType  # see _arrow_error

    filesystem, target = location.connect()
    if filesystem.get_file_info(target).type is not FileType.Directory:
        return {displayed_path: _decode_text(_read_bytes(location))}
    infos = filesystem.get_file_info(FileSelector(target))
    texts = {}
    for name in sorted(file_info.path for file_info in infos if file_info.path.endswith(".json")):
        with filesystem.open_input_stream(name) as stream:
            texts[name] = _decode_text(stream.read())
    return texts


def _decode_text(data: bytes) -> str:
    """Decode the text. Invalid UTF-8 is replaced, and `from_json` rejects the result."""
    return data.decode(errors="replace")


def _write_bytes(location: FileLocation, data: bytes) -> None:
    if location.local is not None:
        _write_local(location.local, data)
    else:
        _write_remote(location, data)


def _write_remote(location: FileLocation, data: bytes) -> tuple[FileSystem, str]:
    filesystem, target = location.connect()
    folder = target.rpartition("/")[0]
    if folder and location.has_folders:
        filesystem.create_dir(folder, recursive=True)
    with filesystem.open_output_stream(target) as stream:
        stream.write(data)
    return filesystem, target


def _write_local(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    target = path.resolve()
    # The path is a device, a pipe, or a folder; for a folder, this raises an error.
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    draft = target.with_name(f".kafkaprod-{uuid.uuid4().hex}")
    try:
        draft.write_bytes(data)
        draft.replace(target)
    except PermissionError:
        if not target.is_file():
            raise
        target.write_bytes(data)  # The file is writable, but its folder is not.
    finally:
        draft.unlink(missing_ok=True)


def _write_probe(location: FileLocation) -> None:
    if location.local is not None:
        _write_local(location.local, _PROBE_DATA)
        location.local.unlink(missing_ok=True)
        return
    filesystem, target = _write_remote(location, _PROBE_DATA)
    with suppress(OSError):  # Permission to write does not include permission to delete.
        filesystem.delete_file(target)
