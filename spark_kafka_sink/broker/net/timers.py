"""Functions to be called later by the event loop."""

from __future__ import annotations

import heapq
import time
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timers:
    """Functions by the time when they are due; for one thread, which looks often enough."""

    __slots__ = ("_heap", "_now", "_number")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._now = now
        self._number = count()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, seconds: float, function: Callable[[], None]) -> None:
        """Call a function once, so much later."""
        heapq.heappush(self._heap, (self._now() + seconds, next(self._number), function))

    def run(self) -> None:
        """Call what is due."""
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
