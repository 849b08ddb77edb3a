"""Open files of a data folder: as many as the process may have, the least used are closed first.

A partition has three files a segment; where `ulimit -n` is small, they can't all stay open.
"""

from __future__ import annotations

import errno
import os
import resource
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SHARE: Final = 2
"""Log files get 1/n of the process's descriptor limit; connections need the rest."""
LEAST: Final = 8
MOST: Final = 8192
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE})


def allowed_files() -> int:
    """How many files of logs may be open at a time: half of what the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    share = MOST if soft == resource.RLIM_INFINITY else soft // SHARE
    return max(LEAST, min(share, MOST))


class FileHandles:
    """Descriptors by path, for reading and writing; used by the event loop's thread.

    Args:
        limit: how many may be open at a time.
    """

    __slots__ = ("_limit", "_open")

    def __init__(self, limit: int | None = None) -> None:
        self._limit = allowed_files() if limit is None else limit
        self._open: OrderedDict[Path, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: Path) -> int:
        """The descriptor of a file, which is made if it is not there; good until the next call.

        Raises:
            OSError: it can't be opened.
        """
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        while len(self._open) >= self._limit:
            self._close_oldest()
        self._open[path] = opened = self._opened(path)
        return opened

    def _opened(self, path: Path) -> int:
        while True:
            try:
                return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                if error.errno not in _NO_ROOM or not self._open:
                    raise
                self._close_oldest()

    def _close_oldest(self) -> None:
        _, descriptor = self._open.popitem(last=False)
        os.close(descriptor)

    def close(self, path: Path) -> None:
        """Let go of a file, if it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_all(self) -> None:
        """Let go of all files."""
        while self._open:
            self._close_oldest()
