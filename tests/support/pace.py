"""How late things happen because the machine does others: what bounds of time must allow for."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAP_S = 0.005
_STEPS = 10
"""A request, its answer and the waits between are some turns of several threads."""


class Pace:
    """The longest that a thread of this process overslept while it was watched."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._ended = threading.Event()

    @property
    def slack_s(self) -> float:
        """Seconds to add to an upper bound of what takes a few steps of both sides."""
        return _STEPS * self.worst_s

    def watch(self) -> None:
        """Take short naps and note how late they end, until `end`."""
        while not self._ended.is_set():
            started = time.monotonic()
            time.sleep(_NAP_S)
            self.worst_s = max(self.worst_s, time.monotonic() - started - _NAP_S)

    def end(self) -> None:
        """Let `watch` return."""
        self._ended.set()


@contextmanager
def pace() -> Iterator[Pace]:
    """The pace of the machine within the block."""
    watched = Pace()
    thread = threading.Thread(target=watched.watch, name="pace", daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        watched.end()
        thread.join()
