"""A clock whose time of day a test may change while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock


class JumpingClock:
    """Another clock, with a time of day that can jump; what measures durations runs on."""

    __slots__ = ("_clock", "_offset_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = 0

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._clock.monotonic()

    def wall_ms(self) -> int:
        """See `Clock`."""
        return self._clock.wall_ms() + self._offset_ms

    def jump(self, milliseconds: int) -> None:
        """Move the time of day, back if negative."""
        self._offset_ms += milliseconds
