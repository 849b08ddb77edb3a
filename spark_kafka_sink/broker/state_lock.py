"""The lock on a cluster's state, where requests are handled beside the event loop.

It is released while a storage that is a network away is waited for: requests about the cluster are
served meanwhile, and those that change logs are served one after the other, on one thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StateLock:
    """Guards a `Cluster` and all that hangs on it."""

    __slots__ = ("_lock", "_owner")

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
        """Let others in while this thread waits for something else; harmless without the lock."""
        if self._owner != get_ident():
            yield
            return
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
