"""Scheduling delays of the machine, which upper bounds in timing tests must allow for."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SLEEP_S = 0.005
_STEPS = 10
"""Thread switches for a request and its response."""


class Pace:
    """Measures the longest delay with which a sleeping thread of this process woke up."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._ended = threading.Event()

    @property
    def slack_s(self) -> float:
        """Seconds to add to an upper bound for one request and response."""
        return _STEPS * self.worst_s

    def watch(self) -> None:
        """Sleep for short intervals and record the delays, until `end`."""
        while not self._ended.is_set():
            started = time.monotonic()
            time.sleep(_SLEEP_S)
            self.worst_s = max(self.worst_s, time.monotonic() - started - _SLEEP_S)

    def end(self) -> None:
        """Stop `watch`."""
        self._ended.set()


@contextmanager
def pace() -> Iterator[Pace]:
    """Measure scheduling delays while the context is active."""
    watched = Pace()
    thread = threading.Thread(target=watched.watch, name="pace", daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        watched.end()
        thread.join()
