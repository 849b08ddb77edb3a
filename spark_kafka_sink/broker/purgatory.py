"""Requests whose answer waits for something: data, replicas, other members, or a deadline.

The same idea as Kafka's DelayedOperationPurgatory, without its threads: operations are kept by
the topic-partitions that they wait for, so that news of one asks those alone.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Key: TypeAlias = tuple[str, int]
"""A topic's name and a partition's index."""

SWEEP_AT = 1024
"""So many answers wait before the first look for clients that have gone."""


@dataclass(slots=True, kw_only=True, eq=False)
class Delayed:
    """An answer to give when `ready` says so, or at `deadline` (monotonic seconds).

    Without `keys` every piece of news asks it.
    """

    deadline: float
    ready: Callable[[], bool]
    complete: Callable[[], None]
    abandoned: Callable[[], bool]
    keys: tuple[Key, ...] = ()
    done: bool = field(default=False, init=False)


class DelayedAnswers:
    """All answers that wait."""

    __slots__ = (
        "_all_changed",
        "_by_deadline",
        "_changed",
        "_keyed",
        "_keyless",
        "_numbers",
        "_sweep_at",
    )

    def __init__(self) -> None:
        self._keyed: dict[Key, dict[Delayed, None]] = {}
        self._keyless: dict[Delayed, None] = {}
        self._by_deadline: list[tuple[float, int, Delayed]] = []
        self._numbers = count()
        self._changed: set[Key] = set()
        self._all_changed = False
        self._sweep_at = SWEEP_AT

    def __len__(self) -> int:
        return sum(not delayed.done for _, _, delayed in self._by_deadline)

    def add(self, delayed: Delayed) -> None:
        """Let an answer wait."""
        for key in delayed.keys:
            self._keyed.setdefault(key, {})[delayed] = None
        if not delayed.keys:
            self._keyless[delayed] = None
        if len(self._by_deadline) >= self._sweep_at:
            self._sweep()
        heapq.heappush(self._by_deadline, (delayed.deadline, next(self._numbers), delayed))

    def _sweep(self) -> None:
        """Forget whoever has gone, so that clients that come and go leave nothing behind."""
        for _, _, delayed in self._by_deadline:
            if not delayed.done and delayed.abandoned():
                self._end(delayed)
        self._by_deadline = [entry for entry in self._by_deadline if not entry[2].done]
        heapq.heapify(self._by_deadline)
        self._sweep_at = max(SWEEP_AT, 2 * len(self._by_deadline))

    def wake(self, key: Key | None = None) -> None:
        """Something changed, at one topic-partition or anywhere: ask those who wait for it."""
        if key is None:
            self._all_changed = True
        else:
            self._changed.add(key)

    def next_deadline(self) -> float | None:
        """When the first of them is due; None if nobody waits."""
        while self._by_deadline and self._by_deadline[0][2].done:
            heapq.heappop(self._by_deadline)
        return self._by_deadline[0][0] if self._by_deadline else None

    def poll(self, now: float) -> None:
        """Give the answers that are ready or due; forget those that nobody waits for."""
        for delayed in self._asked():
            if not delayed.done and delayed.abandoned():
                self._end(delayed)
            elif not delayed.done and delayed.ready():
                self._end(delayed)
                delayed.complete()
        while (due := self.next_deadline()) is not None and due <= now:
            delayed = heapq.heappop(self._by_deadline)[2]
            self._end(delayed)
            if not delayed.abandoned():
                delayed.complete()

    def _asked(self) -> list[Delayed]:
        everybody, keys = self._all_changed, self._changed
        self._all_changed, self._changed = False, set()
        if everybody:
            return [delayed for _, _, delayed in sorted(self._by_deadline, key=_age)]
        if not keys:
            return []
        waiting = (delayed for key in keys for delayed in self._keyed.get(key, ()))
        return [*dict.fromkeys(waiting), *self._keyless]

    def _end(self, delayed: Delayed) -> None:
        delayed.done = True
        self._keyless.pop(delayed, None)
        for key in delayed.keys:
            waiting = self._keyed.get(key, {})
            waiting.pop(delayed, None)
            if not waiting:
                self._keyed.pop(key, None)


def _age(entry: tuple[float, int, Delayed]) -> int:
    return entry[1]
