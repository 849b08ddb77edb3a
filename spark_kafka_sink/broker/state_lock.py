"""The lock on the cluster's state, used if requests are handled outside the event loop's thread.

The lock is released while a thread waits for a remote storage. During that time, the event loop
serves requests that need only the cluster's state; requests that change logs run one at a time, on
one thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StateLock:
    """Guards a `Cluster` and all state that belongs to it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = 0
        self._lock.release()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the lock during the block; do nothing if this thread does not hold it."""
        if self._owner != get_ident():
            yield
            return
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
