"""The durations of the driver's steps."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stopwatch:
    """Measures the durations of named steps; several steps may have the same name."""

    __slots__ = ("_now", "_steps")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the duration of the block, even if the block raises an error."""
        began = self._now()
        try:
            yield
        finally:
            self._steps.append((name, 1000 * (self._now() - began)))

    @property
    def steps(self) -> tuple[tuple[str, float], ...]:
        """The name of each step so far and its duration in milliseconds, in order."""
        return tuple(self._steps)
