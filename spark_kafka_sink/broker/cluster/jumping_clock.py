"""The clock of a broker, whose wall time tests can change."""

from __future__ import annotations

from spark_kafka_sink.common.clock import SystemClock


class JumpingClock(SystemClock):
    """A clock whose wall time tests can change; its monotonic time is not affected."""

    def __init__(self) -> None:
        self._offset_ms = 0

    def wall_ms(self) -> int:
        """See `Clock`."""
        return super().wall_ms() + self._offset_ms

    def jump(self, milliseconds: int) -> None:
        """Move the wall time by `milliseconds`, which may be negative."""
        self._offset_ms += milliseconds
