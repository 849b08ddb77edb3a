"""How long each step of a commit took."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stopwatch:
    """Times named steps; the same name may come again."""

    __slots__ = ("_now", "_steps")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside, also where it raises."""
        began = self._now()
        try:
            yield
        finally:
            self._steps.append((name, 1000 * (self._now() - began)))

    @property
    def steps(self) -> tuple[tuple[str, float], ...]:
        """Name and milliseconds of each step so far, in their order."""
        return tuple(self._steps)
