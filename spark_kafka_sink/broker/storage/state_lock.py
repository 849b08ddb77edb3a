"""The lock on the cluster's state, used if a second thread handles requests.

The lock is released while the second thread waits for a remote storage. During this time, the event
loop serves requests that need only the cluster's state. Requests that change logs run one at a
time, on the second thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StateLock:
    """Guards a `Cluster` and all of its state."""

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
        """Release the lock during the block, if this thread holds it."""
        if self._owner != get_ident():
            yield
            return
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
