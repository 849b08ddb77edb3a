"""CPU time of the stages that a thread is in, each without those inside it."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import wraps
from time import thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class StageClock:
    """Collects seconds of CPU by stage, for all threads of this process."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        """Guards `seconds`."""
        self._inside = threading.local()

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, and its time counts for the stage."""

        @wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            began = self._enter()
            try:
                return function(*args, **named)
            finally:
                self._leave(stage, began)

        return run

    def timed_items(self, stage: str, items: Iterable[Any]) -> Iterator[Any]:
        """The items, and the time until each comes counts for the stage."""
        following = self.timed(stage, iter(items).__next__)
        while True:
            try:
                item = following()
            except StopIteration:
                return
            yield item

    def _enter(self) -> float:
        self._stack.append(0.0)
        return thread_time()

    def _leave(self, stage: str, began: float) -> None:
        whole = thread_time() - began
        within = self._stack.pop()
        if self._stack:
            self._stack[-1] += whole
        with self._lock:
            self.seconds[stage] += whole - within

    @property
    def _stack(self) -> list[float]:
        """Seconds of the stages inside each stage that this thread is in."""
        stack: list[float] | None = getattr(self._inside, "stack", None)
        if stack is None:
            stack = self._inside.stack = []
        return stack
