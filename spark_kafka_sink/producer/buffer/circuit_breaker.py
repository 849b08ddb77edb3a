"""A circuit breaker: after too many errors it blocks requests for a while, then tries one.

    CLOSED -> OPEN           a threshold is reached
    OPEN -> HALF_OPEN        `open_for` seconds have passed
    HALF_OPEN -> CLOSED      the trial batch was delivered
    HALF_OPEN -> OPEN        it was not

Pure: callers pass the time. Source: "Advanced Producer Patterns", see docs/design.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds

_SLOTS = 10
"""Slots of the window; outcomes expire one slot at a time."""


class BreakerState(Enum):
    """States of a breaker."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()


class Event(Enum):
    """Events that may change a breaker's state."""

    TRIPPED = auto()
    COOLED_DOWN = auto()
    SUCCEEDED = auto()
    FAILED = auto()


_NEXT = {
    (BreakerState.CLOSED, Event.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, Event.COOLED_DOWN): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, Event.SUCCEEDED): BreakerState.CLOSED,
    (BreakerState.HALF_OPEN, Event.FAILED): BreakerState.OPEN,
}


def next_state(state: BreakerState, event: Event) -> BreakerState:
    """The state after an event; other events leave the state unchanged."""
    return _NEXT.get((state, event), state)


class BatchOutcome(Enum):
    """The outcome of one attempt to send a batch."""

    DELIVERED = auto()
    RETRIED = auto()
    FAILED = auto()


@dataclass(slots=True)
class Tally:
    """Number of batches by outcome."""

    delivered: int = 0
    retried: int = 0
    failed: int = 0

    def add(self, outcome: BatchOutcome) -> None:
        """Count one outcome."""
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
        """Whether a threshold is reached; percentages need at least `min_batches` outcomes."""
        if 0 < thresholds.failures <= self.failed:
            return True
        return self.total >= min_batches and 0 < thresholds.retry_percent <= self.retry_percent


@dataclass(slots=True)
class Window:
    """Outcomes of the last `seconds`."""

    seconds: float
    _slots: deque[tuple[int, Tally]] = field(default_factory=deque)

    def add(self, outcome: BatchOutcome, now: float) -> None:
        """Record an outcome."""
        slot = int(now * _SLOTS / self.seconds)
        while self._slots and self._slots[0][0] <= slot - _SLOTS:
            self._slots.popleft()
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, Tally()))
        self._slots[-1][1].add(outcome)

    def tally(self, now: float) -> Tally:
        """The outcomes within the window."""
        oldest = int(now * _SLOTS / self.seconds) - _SLOTS
        tallies = [tally for slot, tally in self._slots if slot > oldest]
        return Tally(
            sum(tally.delivered for tally in tallies),
            sum(tally.retried for tally in tallies),
            sum(tally.failed for tally in tallies),
        )

    def clear(self) -> None:
        """Drop all outcomes."""
        self._slots.clear()


class Breaker:
    """The breaker of one partition, one broker, or the job.

    Any thread may ask `state`, the sender thread alone does the rest.
    """

    __slots__ = ("_config", "_position", "_thresholds", "_window")

    def __init__(self, config: BreakerConfig, thresholds: Thresholds) -> None:
        self._config = config
        self._thresholds = thresholds

        # Written by the sender's thread, read by any: replaced as a whole.
        self._position = (BreakerState.CLOSED, 0.0)
        """The state, and when it was entered."""

        # Sender thread only.
        self._window = Window(config.window)

    def state(self, now: float) -> BreakerState:
        """The state now; time alone turns OPEN into HALF_OPEN."""
        state, since = self._position
        cooled_down = now >= since + self._config.open_for
        return next_state(state, Event.COOLED_DOWN) if cooled_down else state

    def record(self, outcome: BatchOutcome, now: float) -> bool:
        """Record an outcome; return whether it opened the breaker."""
        state = self.state(now)
        if state is BreakerState.HALF_OPEN:
            good = outcome is BatchOutcome.DELIVERED
            return self._move(next_state(state, Event.SUCCEEDED if good else Event.FAILED), now)
        self._window.add(outcome, now)
        if outcome is BatchOutcome.DELIVERED or state is not BreakerState.CLOSED:
            return False
        if self.tally(now).reaches(self._thresholds, self._config.min_batches):
            return self._move(next_state(state, Event.TRIPPED), now)
        return False

    def tally(self, now: float) -> Tally:
        """The outcomes within the window."""
        return self._window.tally(now)

    def _move(self, state: BreakerState, now: float) -> bool:
        self._position = (state, now)
        if state is not BreakerState.OPEN:
            self._window.clear()
        return state is BreakerState.OPEN
