"""A clock whose wall time tests can change while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.common.clock import Clock


class JumpingClock:
    """A clock whose wall time tests can change; its monotonic time is not affected."""

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
        """Move the wall time by `milliseconds`, which may be negative."""
        self._offset_ms += milliseconds
