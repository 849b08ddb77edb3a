"""Requests whose answer waits for something: data, other members, or a deadline.

The same idea as Kafka's DelayedOperationPurgatory, without its threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, kw_only=True)
class Delayed:
    """An answer to give when `ready` says so, or at `deadline` (monotonic seconds)."""

    deadline: float
    ready: Callable[[], bool]
    complete: Callable[[], None]
    abandoned: Callable[[], bool]


class DelayedAnswers:
    """All answers that wait."""

    __slots__ = ("_changed", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[Delayed] = []
        self._changed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, delayed: Delayed) -> None:
        """Let an answer wait."""
        self._waiting.append(delayed)

    def wake(self) -> None:
        """Something changed: ask everybody who waits whether it was that."""
        self._changed = True

    def next_deadline(self) -> float | None:
        """When the first of them is due; None if nobody waits."""
        return min((delayed.deadline for delayed in self._waiting), default=None)

    def poll(self, now: float) -> None:
        """Give the answers that are ready or due; forget those that nobody waits for."""
        if not self._waiting:
            return
        changed, self._changed = self._changed, False
        waiting, self._waiting = self._waiting, []
        for delayed in waiting:
            if delayed.abandoned():
                continue
            if delayed.deadline <= now or (changed and delayed.ready()):
                delayed.complete()
            else:
                self._waiting.append(delayed)
