"""Detect files that change, and wait while they are being replaced.

A certificate and its key are two files, and `cp` truncates a file before writing to it. For a short
time, a file can therefore be empty or incomplete, or not match the other file.
`retry_while_files_change` waits for the replacement to finish.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


SETTLING_S = 5.0
"""Seconds to wait for files that are being replaced."""
RECENT_CHANGE_S = 60.0
"""Seconds after a file's last change in which related files might still be replaced."""
_CHECK_INTERVAL_S = 0.1

FileStamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, and mtime and ctime in nanoseconds. ctime is needed because a file
that is moved to the path of another file keeps its mtime.
"""
FileStamps = tuple[FileStamp | None, ...]
Result = TypeVar("Result")


def file_stamps(paths: Iterable[str]) -> FileStamps:
    """Return the current stamps of files, or None for a file that is missing."""
    return tuple(map(file_stamp, paths))


def retry_while_files_change(
    paths: tuple[str, ...], attempt: Callable[[], Result], settling: float
) -> tuple[Result, FileStamps]:
    """Return the result of `attempt`, and the stamps of the files at its start.

    A failed attempt is repeated if the files are being replaced, for up to `settling` seconds.

    Raises:
        Exception: see `attempt`.
    """
    deadline = time.monotonic() + settling
    while True:
        stamps = file_stamps(paths)
        try:
            return attempt(), stamps
        except Exception:
            if not _change_follows(paths, stamps, deadline):
                raise


def _change_follows(paths: tuple[str, ...], seen: FileStamps, deadline: float) -> bool:
    """Wait until recently changed files change again. If no file is recent, do not wait.

    Args:
        paths: paths of the files.
        seen: stamps taken when the files could not be used.
        deadline: time limit in seconds of the monotonic clock.

    Returns:
        True if the files have changed and should be read again.
    """
    while _changed_recently(seen) and time.monotonic() < deadline:
        if file_stamps(paths) != seen:
            return True
        time.sleep(_CHECK_INTERVAL_S)
    return False


def _changed_recently(stamps: FileStamps) -> bool:
    since_ns = time.time_ns() - int(RECENT_CHANGE_S * 1e9)
    return any(stamp is not None and stamp[-1] > since_ns for stamp in stamps)


def file_stamp(path: str) -> FileStamp | None:
    """Return the stamp of a file, or None if it is missing, which is an error when it is read."""
    try:
        status = os.stat(path)  # noqa: PTH116 - pathlib's normalizes the path first
    except (OSError, ValueError):  # A ValueError means that the path is invalid.
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
