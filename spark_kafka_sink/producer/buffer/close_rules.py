"""When a batch is closed: it is full, linger.ms has passed, or memory is short.

These are decisions without side effects; `Accumulator` carries them out. It also closes batches on
flush, and a full batch before a record that does not fit (see `batch_layout`).

Source: ``RecordAccumulator.ready``, with the memory rules of this producer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.common.close_reason import CloseReason

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import ProducerConfig

_SHORTAGE_AFTER_S = 0.02
"""Seconds that the writer waits for buffer space before open batches are closed. This gives batches
in flight time to free memory, because a small batch costs as much as a full batch."""
_TIMER_STEP_S = 0.001
"""Resolution of the sender's waits in seconds; they are rounded up.

Because linger.ms is an upper limit, batches close earlier by this step, but by at most a quarter of
linger.ms.
"""
_SHORT_LINGER_S = 0.005
"""If linger.ms is less than this number of seconds, the first open batch wakes the sender, so that
the sender closes the batch in time.
"""


@dataclass(frozen=True, slots=True)
class CloseRules:
    """The rules of one configuration. Times are in seconds of the monotonic clock."""

    full_size: int
    """Bytes, including the header, from which a batch counts as full: 1/64 less than batch.size."""
    full_records: int
    """Records with which a batch is full."""
    linger_s: float
    """Age at which a batch is closed."""
    is_linger_short: bool
    """True if the first open batch must wake the sender."""

    @classmethod
    def from_config(cls, config: ProducerConfig) -> Self:
        """Return the rules for batch.size, batch.num.messages and linger.ms."""
        linger = config.linger_ms / 1000
        return cls(
            full_size=config.batch_size - config.batch_size // 64,
            full_records=config.batch_num_messages,
            linger_s=linger - min(_TIMER_STEP_S, linger / 4),
            is_linger_short=linger < _SHORT_LINGER_S,
        )

    def is_full(self, size: int, records: int) -> bool:
        """Return True if a batch of `size` uncompressed bytes with `records` records is full."""
        return size >= self.full_size or records >= self.full_records

    def reason_to_close(
        self, created_at: float, now: float, *, is_memory_short: bool
    ) -> CloseReason | None:
        """Return why the oldest open batch is closed now, or None if it stays open."""
        if now >= created_at + self.linger_s:
            return CloseReason.LINGER
        return CloseReason.MEMORY if is_memory_short else None

    def seconds_until_due(
        self, oldest_created_at: float | None, now: float, *, is_writer_waiting: bool
    ) -> float:
        """Return when the rules must be applied again; `oldest_created_at` is None without batches.

        While the writer waits for memory, this is at most the time after which memory is short.
        """
        if oldest_created_at is None:
            return 1.0 if self.is_linger_short else self.linger_s
        lingers = max(0.0, oldest_created_at + self.linger_s - now)
        return min(lingers, _SHORTAGE_AFTER_S) if is_writer_waiting else lingers


def is_writer_starved(waiting_since: float | None, now: float, *, is_all_open: bool) -> bool:
    """Return True if all open batches must be closed, because the writer waits for memory.

    Args:
        waiting_since: when the writer began to wait for memory, or None.
        now: the time of the monotonic clock.
        is_all_open: no batch is closed and incomplete, so that no memory becomes free otherwise.
    """
    return waiting_since is not None and (is_all_open or now >= waiting_since + _SHORTAGE_AFTER_S)


def surplus_bytes(used: int, limit: int, open_bytes: int) -> int:
    """Return how many bytes of open batches must be closed to free memory; 0 if none.

    If open batches use more than half of the buffer, the oldest are closed until they use a
    quarter. The writer can fill the rest while they are sent.
    """
    if used <= limit // 2 or open_bytes <= limit // 2:
        return 0
    return open_bytes - limit // 4
