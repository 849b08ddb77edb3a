"""What Kafka's LogManager does from time to time: retention, and flushing by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
    from spark_kafka_sink.common.clock import Clock

FLUSH_LOOK_MS: Final = 100
"""Milliseconds between two looks for logs whose flush.ms has passed."""


class LogManager:
    """Applies retention and flush.ms to all logs.

    Args:
        logs: all logs there are now.
        clock: tells when.
        retention_ms: log.retention.check.interval.ms.
    """

    __slots__ = ("_clock", "_flushed", "_logs", "_retained", "_retention_ms")

    def __init__(
        self, logs: Callable[[], Iterable[UnifiedLog]], clock: Clock, retention_ms: int
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._retention_ms = retention_ms
        self._flushed = self._retained = clock.wall_ms()

    def tick(self) -> None:
        """Do what is due."""
        now = self._clock.wall_ms()
        if now - self._flushed >= FLUSH_LOOK_MS:
            self._flushed = now
            for log in self._logs():
                log.storage.flush_if_due(now)
        if now - self._retained >= self._retention_ms:
            self._retained = now
            for log in self._logs():
                log.storage.expire(now)
