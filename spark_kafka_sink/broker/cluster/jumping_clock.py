"""The clock of a broker, whose time tests can change."""

from __future__ import annotations

from spark_kafka_sink.common.clock import SystemClock


class JumpingClock(SystemClock):
    """A clock whose time tests can change."""

    def __init__(self) -> None:
        self._offset_ms = 0
        self._advanced_s = 0.0

    def monotonic(self) -> float:
        """See `Clock`."""
        return super().monotonic() + self._advanced_s

    def wall_ms(self) -> int:
        """See `Clock`."""
        return super().wall_ms() + self._offset_ms

    def jump(self, milliseconds: int) -> None:
        """Move the wall time by `milliseconds`, which may be negative."""
        self._offset_ms += milliseconds

    def advance(self, seconds: float) -> None:
        """Move the monotonic time forward by `seconds`, as if they had passed."""
        self._advanced_s += seconds
