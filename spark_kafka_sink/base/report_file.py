"""Writes and reads the delivery report on any file system that pyarrow.fs knows."""

from __future__ import annotations

from pathlib import Path

from pyarrow import ArrowException
from pyarrow.fs import FileSystem, LocalFileSystem

from spark_kafka_sink.base.errors import ReportError
from spark_kafka_sink.base.uris import redacted

_HINT = "Check the path, the permissions, and the file system's own configuration."


def write_report(path: str, text: str) -> None:
    """Write `text` to a local path or a URI, making its folder; an old file is replaced.

    Raises:
        ReportError: it can't be written there.
    """
    try:
        filesystem, target = _locate(path)
        folder = target.rpartition("/")[0]
        if folder:
            filesystem.create_dir(folder, recursive=True)
        with filesystem.open_output_stream(target) as stream:
            stream.write(text.encode())
    except (OSError, ArrowException, ValueError) as error:
        raise _failure("written to", path, error) from error


def read_report(path: str) -> str:
    """The text at a local path or a URI.

    Raises:
        ReportError: it can't be read.
    """
    try:
        filesystem, target = _locate(path)
        with filesystem.open_input_stream(target) as stream:
            return stream.read().decode()
    except (OSError, ArrowException, ValueError) as error:
        raise _failure("read from", path, error) from error


def _locate(path: str) -> tuple[FileSystem, str]:
    if "://" in path or path.startswith("file:"):
        return FileSystem.from_uri(path)
    return LocalFileSystem(), Path(path).expanduser().absolute().as_posix()


def _failure(what: str, path: str, error: Exception) -> ReportError:
    shown = redacted(path)
    # Arrow repeats the URI in its messages, credentials included.
    reason = str(error).replace(path, shown)
    return ReportError(f"the delivery report can't be {what} {shown}: {reason}", hint=_HINT)
