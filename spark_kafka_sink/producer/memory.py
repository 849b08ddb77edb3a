"""buffer.memory: what is charged, by whom it is held, when it is free again.

A chunk of encoded rows is one Arrow buffer that several batches share, so it is charged as a
whole and freed when the last of them is done. The accumulator's lock guards all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

COPY_BELOW = 8
"""A slice under one eighth of its chunk is copied: it must not keep the whole chunk alive."""


@dataclass(slots=True)
class Charge:
    """`size` bytes that stay charged until all `holders` have let go."""

    size: int
    holders: int = 1


class Memory:
    """A counter of charged bytes with a limit."""

    __slots__ = ("limit", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0

    def fits(self, size: int) -> bool:
        """Whether `size` bytes more stay within the limit; an empty buffer takes anything."""
        return self.used == 0 or self.used + size <= self.limit

    def take(self, size: int) -> None:
        """Charge `size` bytes."""
        self.used += size
        self.peak = max(self.peak, self.used)

    def give_back(self, size: int) -> None:
        """Free `size` bytes."""
        self.used -= size

    def let_go(self, charges: list[Charge]) -> None:
        """One holder of each charge is done with it."""
        for charge in charges:
            charge.holders -= 1
            if charge.holders == 0:
                self.used -= charge.size
        charges.clear()
