"""How far the followers of a partition have copied its leader's log, and what consumers may see.

As Kafka's Replica and Partition: a follower's end offset, the time when it last had everything,
and the high watermark. There is one log in memory; a follower is a position in it.
"""

from __future__ import annotations

from collections import deque

MAX_STEPS = 10_000
"""Appends remembered for a follower that lags; beyond that the newest ones are taken together."""


class ReplicaStates:
    """Positions of the followers by node id; times are monotonic seconds."""

    __slots__ = ("_caught_up", "_steps", "ends", "high_watermark", "seen_end")

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.high_watermark = 0
        self.seen_end = 0
        self._steps: deque[tuple[float, int]] = deque()
        self._caught_up: dict[int, float] = {}

    def appended(self, end: int, now: float) -> None:
        """Note where the leader's log ends now."""
        for node, copied in self.ends.items():
            if copied >= self.seen_end:
                self._caught_up[node] = now
        self.seen_end = end
        if len(self._steps) >= MAX_STEPS:
            self._steps.pop()
        self._steps.append((now, end))

    def copy(self, node: int, upto: float, now: float) -> None:
        """Let a follower have what the leader had at the time `upto`."""
        end = self.ends.get(node, 0)
        for time, step in self._steps:
            if time > upto:
                break
            end = max(end, step)
        self.ends[node] = end
        caught_up = now if end >= self.seen_end else upto
        self._caught_up[node] = max(caught_up, self._caught_up.get(node, now))

    def forget_before(self, time: float) -> None:
        """Drop the steps that every follower that copies has made."""
        while self._steps and self._steps[0][0] <= time:
            self._steps.popleft()

    def next_step(self, node: int) -> float | None:
        """When the leader appended what a follower lacks first; None if it lacks nothing."""
        end = self.ends.get(node, 0)
        return next((time for time, step in self._steps if step > end), None)

    @property
    def is_behind(self) -> bool:
        """Whether there are steps that a follower has not made yet."""
        return bool(self._steps)

    def track(self, node: int, now: float) -> None:
        """Begin to count how long a follower lacks something."""
        self._caught_up.setdefault(node, now)

    def is_late(self, node: int, now: float, allowed: float) -> bool:
        """Whether a follower lacks something and has for longer than `allowed` seconds."""
        if self.ends.get(node, 0) >= self.seen_end:
            return False
        return now - self._caught_up.get(node, now) > allowed

    def end(self, node: int) -> int:
        """The end of a follower's copy."""
        return self.ends.get(node, 0)

    def catch_up(self, node: int, end: int) -> None:
        """Let a follower have everything at once."""
        self.ends[node] = end

    def begin(self, end: int) -> None:
        """Begin to have followers: what the leader alone had is committed."""
        self.seen_end = self.high_watermark = end
        self._steps.clear()

    def forget(self, node: int) -> None:
        """Drop the copy of a node that is no replica any more."""
        self.ends.pop(node, None)
        self._caught_up.pop(node, None)

    def truncate(self, end: int) -> None:
        """Forget what lies behind `end`: its leader has gone with it."""
        self.seen_end = end
        self._steps.clear()
        self.high_watermark = min(self.high_watermark, end)
        self.ends = {node: min(copied, end) for node, copied in self.ends.items()}
