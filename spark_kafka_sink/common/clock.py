"""A clock that tests can replace."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The interface of a clock."""

    def monotonic(self) -> float:
        """Return the seconds since a fixed moment. The value never decreases."""
        ...

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970, as in Kafka's timestamps."""
        ...


class SystemClock:
    """The system clock."""

    __slots__ = ()

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000
