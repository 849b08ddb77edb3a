"""Which leader epoch wrote which offsets (KIP-101, KIP-279), as Kafka's LeaderEpochFileCache."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

UNDEFINED = -1


class EpochEntry(NamedTuple):
    """A leader epoch and its first offset."""

    epoch: int
    offset: int


class EpochEnd(NamedTuple):
    """A leader epoch and the offset where the next one begins; both -1 if unknown."""

    epoch: int
    offset: int


class LeaderEpochCache:
    """The leader epochs of one log; epochs and offsets both grow."""

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        self._starts: list[EpochEntry] = []

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there was none."""
        return self._starts[-1].epoch if self._starts else UNDEFINED

    def entries(self) -> list[EpochEntry]:
        """From the oldest epoch to the newest."""
        return list(self._starts)

    def assign(self, epoch: int, offset: int) -> None:
        """Begin an epoch, unless it has begun; those that wrote nothing are forgotten."""
        if epoch <= self.latest:
            return
        self.truncate(offset)
        self._starts.append(EpochEntry(epoch, offset))

    def truncate(self, offset: int) -> None:
        """The log ends at an offset now: forget what began there or later."""
        while self._starts and self._starts[-1].offset >= offset:
            self._starts.pop()

    def end_of(self, epoch: int, end_offset: int) -> EpochEnd:
        """Find where an epoch ended, or the newest one below it, in a log with this end."""
        if epoch == self.latest:
            return EpochEnd(epoch, end_offset)
        after = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        if epoch == UNDEFINED or after == len(self._starts):
            return EpochEnd(UNDEFINED, UNDEFINED)
        found = self._starts[after - 1].epoch if after else epoch
        return EpochEnd(found, self._starts[after].offset)
