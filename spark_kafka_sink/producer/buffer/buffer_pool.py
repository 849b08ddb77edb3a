"""The accounting for buffer.memory.

A chunk of encoded rows is one Arrow buffer that several batches share. It is charged as a whole,
and freed when the last of these batches is complete.

Source: ``BufferPool``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.producer.buffer.session_state import throttled_note
from spark_kafka_sink.report.metrics.metrics_recorder import BufferUsage

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.producer.buffer.batch import Charge
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.buffer.session_state import SessionState


class BufferPool:
    """A counter of charged bytes with a limit; Arrow allocates the memory itself."""

    def __init__(
        self, config: ProducerConfig, state: SessionState, listeners: BatchListener
    ) -> None:
        self.limit = config.buffer_memory
        self._max_block_ms = config.max_block_ms
        self._state = state
        self._listeners = listeners

        # Changed under the session state's lock. Any thread may read a single attribute without it.
        self.used = 0
        """Number of bytes that are currently charged."""
        self.writer_waiting_since: float | None = None
        """Start of the writer's wait for buffer space (monotonic clock); None if not waiting."""

        # Guarded by the session state's lock.
        self._peak = 0
        self._waits = 0
        self._waited = 0.0
        self._freed_at = 0.0

    # Only the writer thread calls the methods below.

    def reserve(self, size: int) -> None:
        """Charge `size` bytes; wait while the buffer is full.

        Java's producer waits for the memory of a single record. A chunk is larger, so max.block.ms
        restarts whenever memory is freed.

        Raises:
            BufferTimeoutError: nothing was freed for max.block.ms.
        """
        with self._state.lock:
            self._state.raise_error()
            if not self.fits(size) and not self.wait_for_room(
                lambda: self.fits(size), size, lambda: self._freed_at
            ):
                raise self._full_error(size)
            self.charge(size)

    def wait_for_room(
        self, done: Callable[[], bool], size: int, since: Callable[[], float] = lambda: 0.0
    ) -> bool:
        """Wait at most max.block.ms until `done` returns True; return False after the timeout.

        max.block.ms is measured from now, from `since`, or from the end of a throttle pause,
        whichever is latest. During the wait, the accumulator closes open batches; see
        `writer_waiting_since`. `size` is the number of bytes requested, for the log.
        """
        started = self._state.clock.monotonic()
        with self._state.lock:
            self.writer_waiting_since = started
        self._state.wake_sender()
        try:
            return self._state.wait_for(
                done, self._max_block_ms / 1000, lambda: max(since(), self._state.throttled_until)
            )
        finally:
            took = self._state.clock.monotonic() - started
            with self._state.lock:
                self.writer_waiting_since = None
                self._waited += took
                self._waits += 1
            self._listeners.on_waited(size, took, self.used)

    # Any thread may call the methods below.

    def fits(self, size: int) -> bool:
        """Return True if `size` more bytes fit; any size fits into an empty buffer."""
        with self._state.lock:
            return self.used == 0 or self.used + size <= self.limit

    def charge(self, size: int) -> None:
        """Charge `size` bytes even if they exceed the limit."""
        with self._state.lock:
            self.used += size
            self._peak = max(self._peak, self.used)

    def free(self, size: int) -> None:
        """Free `size` charged bytes."""
        with self._state.lock:
            self.used -= size
            self._freed_at = self._state.clock.monotonic()

    def release(self, charges: list[Charge]) -> None:
        """Remove one holder of each charge, and empty the list."""
        with self._state.lock:
            for charge in charges:
                charge.holders -= 1
                if charge.holders == 0:
                    self.free(charge.size)
            charges.clear()

    def usage(self) -> BufferUsage:
        """Return the number and duration of the writer's waits, and the peak memory."""
        with self._state.lock:
            return BufferUsage(self._waits, self._waited, self._peak)

    def _full_error(self, size: int) -> BufferTimeoutError:
        return BufferTimeoutError(
            f"no buffer space for {size:,} bytes within max.block.ms = {self._max_block_ms}: "
            f"{self.used:,} of {self.limit:,} bytes are not yet acknowledged"
            + throttled_note(self._state.throttled_ms),
            hint="Check that the brokers accept data, or raise kafka.buffer.memory or "
            "kafka.max.block.ms.",
        )
