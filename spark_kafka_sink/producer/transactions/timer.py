"""transaction.timeout.ms as the producer sees it: how long its transaction has been open.

The coordinator counts from the first partition that is added; that request was sent before, so
what is over here is at most a round trip from being over there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Elapsed(Enum):
    """What has just come to pass."""

    NOTHING = auto()
    HALF = auto()
    """Half of the timeout has passed; said once."""
    ALL = auto()
    """The coordinator aborts the transaction."""


@dataclass(slots=True)
class TransactionTimer:
    """`timeout` in seconds, None for none; `started` in seconds of the monotonic clock."""

    timeout: float | None
    started: float | None = None
    warned: bool = False

    def start(self, now: float) -> None:
        """The first request has gone that may begin the transaction."""
        if self.started is None:
            self.started = now

    def check(self, now: float) -> Elapsed:
        """What has come to pass since the last call."""
        if self.started is None or self.timeout is None:
            return Elapsed.NOTHING
        age = now - self.started
        if age >= self.timeout:
            return Elapsed.ALL
        if age >= self.timeout / 2 and not self.warned:
            self.warned = True
            return Elapsed.HALF
        return Elapsed.NOTHING
