"""The high watermark of a partition and the positions of its followers, as in Kafka's Partition.

There is only one copy of the log. Each follower is represented by a position in this log.
`ReplicaStates` contains the high watermark, and the end offset of each follower with the time when
the follower was last caught up. `cluster/replica_manager.py` advances the high watermark.
"""

from __future__ import annotations

from collections import Counter, deque

_MAX_STEPS = 10_000
"""Maximum number of appends stored for lagging followers. Further appends are merged."""


class ReplicaStates:
    """Positions of the followers by node id. All times are in monotonic seconds."""

    def __init__(self) -> None:
        self.ends: Counter[int] = Counter()
        """The end offset of each follower, which is 0 for an unknown follower."""
        self.high_watermark = 0
        self.seen_end = 0
        self._steps: deque[tuple[float, int]] = deque()
        self._caught_up: dict[int, float] = {}

    def record_append(self, end: int, now: float) -> None:
        """Record an append, after which the leader's log ended at `end` at the time `now`."""
        for node, copied in self.ends.items():
            if copied >= self.seen_end:
                self._caught_up[node] = now
        self.seen_end = end
        if len(self._steps) >= _MAX_STEPS:
            self._steps.pop()
        self._steps.append((now, end))

    def copy(self, node: int, upto: float, now: float) -> None:
        """Advance a follower to the offset at which the leader's log ended at the time `upto`."""
        end = self.ends[node]
        for time, step in self._steps:
            if time > upto:
                break
            end = max(end, step)
        self.ends[node] = end
        caught_up = now if end >= self.seen_end else upto
        self._caught_up[node] = max(caught_up, self._caught_up.get(node, now))

    def forget_before(self, time: float) -> None:
        """Drop the records of appends up to `time`, which every fetching follower has copied."""
        while self._steps and self._steps[0][0] <= time:
            self._steps.popleft()

    def next_step(self, node: int) -> float | None:
        """Return the time of the first append that a follower has not copied, or None."""
        end = self.ends[node]
        return next((time for time, step in self._steps if step > end), None)

    @property
    def has_lagging_follower(self) -> bool:
        """True if there are appends that a follower has not copied yet."""
        return bool(self._steps)

    def track(self, node: int, now: float) -> None:
        """Start to measure how long a follower lags."""
        self._caught_up.setdefault(node, now)

    def is_lagging(self, node: int, now: float, allowed: float) -> bool:
        """Return True if a follower has lagged for more than `allowed` seconds."""
        if self.ends[node] >= self.seen_end:
            return False
        return now - self._caught_up.get(node, now) > allowed

    def begin(self, end: int) -> None:
        """Start tracking when the first followers are added. All existing records are committed."""
        self.seen_end = self.high_watermark = end
        self._steps.clear()

    def forget(self, node: int) -> None:
        """Drop the state of a node that is no longer a replica."""
        self.ends.pop(node, None)
        self._caught_up.pop(node, None)

    def truncate(self, end: int) -> None:
        """Limit all positions to `end`, because later records were lost with the former leader."""
        self.seen_end = end
        self._steps.clear()
        self.high_watermark = min(self.high_watermark, end)
        self.ends = Counter({node: min(copied, end) for node, copied in self.ends.items()})
