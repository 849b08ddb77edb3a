"""The open files of a data folder. At the limit, the least recently used file is closed."""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


_MIN_FILES = 8
_MAX_FILES = 8192
_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
_TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_CANNOT_SYNC_FOLDERS = frozenset({errno.EACCES, errno.EBADF, errno.EINVAL})


def _allowed_files() -> int:
    """Return the maximum number of open log files: half of the process's limit."""
    try:
        import resource
    except ImportError:  # Windows has no limit of this kind.
        return _MAX_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = _MAX_FILES if soft == resource.RLIM_INFINITY else soft // 2
    return max(_MIN_FILES, min(half, _MAX_FILES))


def sync_folder(folder: Path) -> None:
    """Make new, renamed and deleted files of a folder survive a crash of the machine.

    Has no effect if the system cannot sync folders, as in PostgreSQL's ``fsync_fname_ext``.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise


class FileHandles:
    """File descriptors by path, for reading and writing. Not thread-safe.

    Args:
        limit: maximum number of open files.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = _allowed_files() if limit is None else limit
        self._open: OrderedDict[Path, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: Path, *, create: bool = False) -> int:
        """Return the descriptor of a file, valid until the next call.

        Raises:
            OSError: the file cannot be opened, is a symbolic link, or is missing without `create`.
        """
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        flags = _FLAGS | os.O_CREAT if create else _FLAGS
        while len(self._open) >= self._limit:
            self._close_oldest()
        while True:
            try:
                self._open[path] = descriptor = os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno not in _TOO_MANY_FILES or not self._open:
                    raise
                self._close_oldest()
            else:
                return descriptor

    def close(self, path: Path) -> None:
        """Close a file if it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_in(self, folder: Path) -> None:
        """Close all files of a folder."""
        for path in [path for path in self._open if path.parent == folder]:
            self.close(path)

    def close_all(self) -> None:
        """Close all files."""
        while self._open:
            self._close_oldest()

    def _close_oldest(self) -> None:
        _, descriptor = self._open.popitem(last=False)
        os.close(descriptor)
