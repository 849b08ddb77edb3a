"""Time, passed in as an object, so that a test decides how it passes."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the producer asks of a clock."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as Kafka's timestamps count."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock for tests: it advances only when told to, both readings together."""

    __slots__ = ("_seconds", "_start_ms")

    def __init__(self, seconds: float = 0.0, start_ms: int = 0) -> None:
        self._seconds = seconds
        self._start_ms = start_ms

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._seconds

    def wall_ms(self) -> int:
        """See `Clock`."""
        return self._start_ms + int(self._seconds * 1_000)

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._seconds += seconds
