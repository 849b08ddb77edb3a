"""Files that somebody is replacing: for a moment one is empty, half written, or fits no other.

A certificate and its key are two files, and `cp` empties one before it writes it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTLING_S = 5.0
"""Seconds to wait for files that are being replaced."""
JUST_NOW_S = 60.0
"""A file that changed within so many seconds may be one of several that are being replaced."""
_LOOK_EVERY_S = 0.1

FileStamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, time of the last change of the content, and of any, both in
nanoseconds: a file that is moved to another one's place brings an old time of the first kind."""
Stamps = tuple[FileStamp | None, ...]


def stamps_of(paths: Iterable[str]) -> Stamps:
    """How the files are now; None for one that is not there."""
    return tuple(map(_stamp, paths))


def change_follows(paths: tuple[str, ...], seen: Stamps, deadline: float) -> bool:
    """Wait until files that were replaced just now change again; any file that is old is final.

    Args:
        paths: of the files.
        seen: as they were when they were of no use.
        deadline: by the monotonic clock, in seconds.

    Returns:
        Whether they have changed, so that it makes sense to read them again.
    """
    while _changed_just_now(seen) and time.monotonic() < deadline:
        if stamps_of(paths) != seen:
            return True
        time.sleep(_LOOK_EVERY_S)
    return False


def _changed_just_now(stamps: Stamps) -> bool:
    since_ns = time.time_ns() - int(JUST_NOW_S * 1e9)
    return any(stamp is not None and stamp[-1] > since_ns for stamp in stamps)


def _stamp(path: str) -> FileStamp | None:
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # ValueError: no path
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
