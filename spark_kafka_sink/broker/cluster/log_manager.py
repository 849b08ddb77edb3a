"""Periodic maintenance of the logs: retention, idle producer ids, and flush.ms."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.common.clock import Clock

_LOG = logging.getLogger(__name__)
_FLUSH_CHECK_MS = 100
"""Milliseconds between checks for logs that must be flushed because of flush.ms."""
_PRODUCER_CHECK_MS = 86_400_000
"""Milliseconds between checks for idle producer ids (producer.id.expiration.ms), which therefore
expire after one to two days. Times of batches are not compared: a producer can write old records.
"""


class LogManager:
    """Deletes expired segments and producer ids, and flushes logs as configured by flush.ms.

    Args:
        partitions: returns all current partitions.
        clock: provides the wall time.
        retention_ms: milliseconds between retention checks (log.retention.check.interval.ms).
    """

    def __init__(
        self, partitions: Callable[[], Iterable[Partition]], clock: Clock, retention_ms: int
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._retention_ms = retention_ms
        self._flush_checked = self._retention_checked = clock.wall_ms()
        self._producers_checked = self._retention_checked

    def tick(self) -> None:
        """Flush logs, and delete expired segments and producer ids, each at its own interval."""
        now = self._clock.wall_ms()
        # The clock might have been set back.
        if abs(now - self._flush_checked) >= _FLUSH_CHECK_MS:
            self._flush_checked = now
            for partition in self._partitions():
                _try_step(partition.log.storage.flush_if_due, now)
        if abs(now - self._retention_checked) >= self._retention_ms:
            self._retention_checked = now
            for partition in self._partitions():
                _try_step(partition.log.expire, now, partition.high_watermark)
        if abs(now - self._producers_checked) >= _PRODUCER_CHECK_MS:
            self._producers_checked = now
            for partition in self._partitions():
                partition.expire_producers()


def _try_step(step: Callable[..., None], *arguments: int) -> None:
    """Run a maintenance step on one log. Errors are logged, so that other logs are not affected."""
    try:
        step(*arguments)
    except OSError as error:
        _LOG.warning("cannot flush a log or delete its old segments: %s", error)
