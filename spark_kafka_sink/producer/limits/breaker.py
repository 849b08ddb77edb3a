"""A circuit breaker: a state machine without threads and I/O.

After too many errors it blocks requests for a while, then allows one trial batch:

    CLOSED -> OPEN           a threshold is reached
    OPEN -> HALF_OPEN        `open_ms` have passed
    HALF_OPEN -> CLOSED      the trial batch was delivered
    HALF_OPEN -> OPEN        the trial batch was not delivered

Callers pass the time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds

_SLOTS = 10
"""Number of slots in the window; outcomes expire one slot at a time."""


class BreakerState(Enum):
    """The states of a breaker."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()


class BatchOutcome(Enum):
    """The outcome of one attempt to send a batch."""

    DELIVERED = auto()
    RETRIED = auto()
    FAILED = auto()


@dataclass(slots=True)
class OutcomeTally:
    """Number of batches by outcome."""

    delivered: int = 0
    retried: int = 0
    failed: int = 0

    def add(self, outcome: BatchOutcome) -> None:
        """Count an outcome."""
        self.delivered += outcome is BatchOutcome.DELIVERED
        self.retried += outcome is BatchOutcome.RETRIED
        self.failed += outcome is BatchOutcome.FAILED

    @property
    def total(self) -> int:
        """Number of all outcomes."""
        return self.delivered + self.retried + self.failed

    @property
    def retry_percent(self) -> float:
        """Percentage of attempts that ended in a retriable error."""
        return 100 * self.retried / self.total if self.total else 0.0

    def reaches(self, thresholds: Thresholds, min_batches: int) -> bool:
        """Return True if a threshold is reached; percentages require `min_batches` outcomes."""
        if 0 < thresholds.failures <= self.failed:
            return True
        return self.total >= min_batches and 0 < thresholds.retry_percent <= self.retry_percent


@dataclass(slots=True)
class Window:
    """The outcomes within a period."""

    seconds: float
    """The length of the period."""
    _slots: deque[tuple[int, OutcomeTally]] = field(default_factory=deque)

    def add(self, outcome: BatchOutcome, now: float) -> None:
        """Record an outcome."""
        slot = int(now * _SLOTS / self.seconds)
        while self._slots and self._slots[0][0] <= slot - _SLOTS:
            self._slots.popleft()
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, OutcomeTally()))
        self._slots[-1][1].add(outcome)

    def tally(self, now: float) -> OutcomeTally:
        """Return the number of outcomes within the window."""
        oldest = int(now * _SLOTS / self.seconds) - _SLOTS
        tallies = [tally for slot, tally in self._slots if slot > oldest]
        return OutcomeTally(
            sum(tally.delivered for tally in tallies),
            sum(tally.retried for tally in tallies),
            sum(tally.failed for tally in tallies),
        )

    def clear(self) -> None:
        """Drop all outcomes."""
        self._slots.clear()


class Breaker:
    """The breaker of one partition, one broker, or the job.

    Any thread may call `state`. Only the sender thread may call the other methods.
    """

    __slots__ = ("_config", "_opened_at", "_thresholds", "_window")

    def __init__(self, config: BreakerConfig, thresholds: Thresholds) -> None:
        self._config = config
        self._thresholds = thresholds

        # Changed by the sender thread, read by any thread.
        self._opened_at: float | None = None
        """The time at which the breaker opened; None if it is closed."""

        # Sender thread only.
        self._window = Window(config.window_ms / 1000)

    def state(self, now: float) -> BreakerState:
        """Return the state at `now`; OPEN becomes HALF_OPEN after `open_ms`."""
        opened_at = self._opened_at
        if opened_at is None:
            return BreakerState.CLOSED
        is_cooled_down = now >= opened_at + self._config.open_ms / 1000
        return BreakerState.HALF_OPEN if is_cooled_down else BreakerState.OPEN

    def record(self, outcome: BatchOutcome, now: float) -> bool:
        """Record an outcome; return True if it opened the breaker."""
        state = self.state(now)
        is_delivered = outcome is BatchOutcome.DELIVERED
        if state is BreakerState.HALF_OPEN and is_delivered:
            self._opened_at = None
            self._window.clear()
            return False
        if state is not BreakerState.HALF_OPEN:
            self._window.add(outcome, now)
            if is_delivered or state is BreakerState.OPEN:
                return False
            if not self.tally(now).reaches(self._thresholds, self._config.min_batches):
                return False
        self._opened_at = now
        return True

    def tally(self, now: float) -> OutcomeTally:
        """Return the number of outcomes within the window."""
        return self._window.tally(now)
