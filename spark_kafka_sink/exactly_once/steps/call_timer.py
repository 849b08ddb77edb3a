"""The clock and the time limit of one planning, commit or abort."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock


class CallTimer:
    """The clock of one planning, commit or abort. Deadlines are in seconds of the client's clock.

    Args:
        clock: the client's clock.
        max_block_s: the time limit, max.block.ms in seconds.
        deadline: for all steps before a decision; by default it follows from the time limit.
    """

    __slots__ = ("deadline", "max_block_s", "now", "wall_ms")

    def __init__(self, clock: Clock, max_block_s: float, deadline: float | None = None) -> None:
        self.now = clock.monotonic
        self.wall_ms = clock.wall_ms
        self.max_block_s = max_block_s
        self.deadline = self.deadline_in(max_block_s) if deadline is None else deadline

    @property
    def is_overdue(self) -> bool:
        """True if the deadline has passed."""
        return self.now() >= self.deadline

    def restart(self) -> None:
        """Restart the time limit, because the earlier steps had no limit."""
        self.deadline = self.deadline_in(self.max_block_s)

    def deadline_in(self, seconds: float) -> float:
        """Return the deadline for requests with their own time limit, at most max.block.ms."""
        return self.now() + min(seconds, self.max_block_s)
