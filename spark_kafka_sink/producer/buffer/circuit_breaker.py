"""A circuit breaker: after too much trouble it lets nothing through for a while, then tries again.

    CLOSED -> OPEN (a threshold is reached) -> HALF_OPEN (it has rested) -> CLOSED (it works again)
                                          ^------- OPEN (it does not) <-'

Pure: the time comes with each call. Source: seed "Advanced Producer Patterns".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds

_SLOTS = 10
"""Parts of the window: what leaves it does so by a tenth of it at a time."""


class BreakerState(Enum):
    """Where a breaker stands."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()


class Event(Enum):
    """What can move a breaker."""

    TRIPPED = auto()
    RESTED = auto()
    SUCCEEDED = auto()
    TROUBLED = auto()


_NEXT = {
    (BreakerState.CLOSED, Event.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, Event.RESTED): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, Event.SUCCEEDED): BreakerState.CLOSED,
    (BreakerState.HALF_OPEN, Event.TROUBLED): BreakerState.OPEN,
}


def next_state(state: BreakerState, event: Event) -> BreakerState:
    """The state after an event; one that is not in the table changes nothing."""
    return _NEXT.get((state, event), state)


class BatchOutcome(Enum):
    """What came of sending a batch once."""

    DELIVERED = auto()
    RETRIED = auto()
    FAILED = auto()


@dataclass(slots=True)
class Tally:
    """Outcomes counted."""

    delivered: int = 0
    retried: int = 0
    failed: int = 0

    def add(self, outcome: BatchOutcome) -> None:
        """One more."""
        self.delivered += outcome is BatchOutcome.DELIVERED
        self.retried += outcome is BatchOutcome.RETRIED
        self.failed += outcome is BatchOutcome.FAILED

    @property
    def total(self) -> int:
        """All of them."""
        return self.delivered + self.retried + self.failed

    @property
    def retry_percent(self) -> float:
        """How many of a hundred answers were errors to be retried."""
        return 100 * self.retried / self.total if self.total else 0.0

    def reaches(self, thresholds: Thresholds, least: int) -> bool:
        """Whether a threshold is reached; a percent counts from `least` outcomes on."""
        if 0 < thresholds.failures <= self.failed:
            return True
        return self.total >= least and 0 < thresholds.retry_percent <= self.retry_percent


@dataclass(slots=True)
class Window:
    """Outcomes of the last `seconds`."""

    seconds: float
    _slots: deque[tuple[int, Tally]] = field(default_factory=deque)

    def add(self, outcome: BatchOutcome, now: float) -> None:
        """An outcome now."""
        slot = int(now * _SLOTS / self.seconds)
        while self._slots and self._slots[0][0] <= slot - _SLOTS:
            self._slots.popleft()
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, Tally()))
        self._slots[-1][1].add(outcome)

    def tally(self, now: float) -> Tally:
        """What the window holds now."""
        oldest = int(now * _SLOTS / self.seconds) - _SLOTS
        tallies = [tally for slot, tally in self._slots if slot > oldest]
        return Tally(
            sum(tally.delivered for tally in tallies),
            sum(tally.retried for tally in tallies),
            sum(tally.failed for tally in tallies),
        )

    def clear(self) -> None:
        """Forget all."""
        self._slots.clear()


class Breaker:
    """One thing's breaker; any thread may ask `state`, the sender thread alone does the rest."""

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
        rested = now >= since + self._config.open_for
        return next_state(state, Event.RESTED) if rested else state

    def record(self, outcome: BatchOutcome, now: float) -> bool:
        """Note an outcome; whether this opened the breaker."""
        state = self.state(now)
        if state is BreakerState.HALF_OPEN:
            good = outcome is BatchOutcome.DELIVERED
            return self._move(next_state(state, Event.SUCCEEDED if good else Event.TROUBLED), now)
        self._window.add(outcome, now)
        if outcome is BatchOutcome.DELIVERED or state is not BreakerState.CLOSED:
            return False
        if self.tally(now).reaches(self._thresholds, self._config.min_batches):
            return self._move(next_state(state, Event.TRIPPED), now)
        return False

    def tally(self, now: float) -> Tally:
        """What it counts now."""
        return self._window.tally(now)

    def _move(self, state: BreakerState, now: float) -> bool:
        self._position = (state, now)
        if state is not BreakerState.OPEN:
            self._window.clear()
        return state is BreakerState.OPEN
