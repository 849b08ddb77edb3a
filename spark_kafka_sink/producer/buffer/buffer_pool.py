"""buffer.memory: what is charged, who holds it, and waiting until there is room.

A chunk of encoded rows is one Arrow buffer that several batches share, so it is charged as a
whole and freed when the last of them is complete. Source: ``BufferPool``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.producer.buffer.session_state import throttled_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.metrics.recorder import MetricsRecorder
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.events import ProducerEvents


@dataclass(slots=True)
class Charge:
    """`size` bytes that stay charged until all `holders` have released them.

    Guarded by the lock of the session's state from when the first batch holds it.
    """

    size: int
    holders: int = 1


class BufferPool:
    """A counter of charged bytes with a limit; the memory itself is Arrow's."""

    def __init__(self, config: ProducerConfig, state: SessionState, events: ProducerEvents) -> None:
        self.limit = config.buffer_memory
        self._max_block_ms = config.max_block_ms
        self._state = state
        self._events = events

        # Guarded by the lock of the session's state.
        self._used = 0
        self._peak = 0
        self._waits = 0
        self._waited = 0.0
        self._waiting_since: float | None = None
        self._freed_at = 0.0

    # Writer thread only.

    def reserve(self, size: int) -> None:
        """Charge `size` bytes; waits while the buffer is full.

        A chunk is larger than the record that Java's producer waits with: max.block.ms begins again
        whenever memory is freed.

        Raises:
            BufferTimeoutError: nothing was freed for max.block.ms.
        """
        with self._state.lock:
            self._state.raise_error()
            if not self.fits(size) and not self.wait_for_room(
                lambda: self.fits(size), size, lambda: self._freed_at
            ):
                raise self._stayed_full(size)
            self.charge(size)

    def wait_for_room(
        self, done: Callable[[], bool], size: int, since: Callable[[], float] = lambda: 0.0
    ) -> bool:
        """Wait for room for `size` bytes, until `done`, at most max.block.ms.

        max.block.ms begins at `since` or at the end of the pause that a broker asked for, if that
        is later than now. Meanwhile the accumulator closes batches that linger; see
        `waiting_since`.
        """
        started = self._state.clock.monotonic()
        with self._state.lock:
            self._waiting_since = started
        self._state.wake_sender()
        try:
            return self._state.wait_for(
                done,
                self._max_block_ms / 1000,
                lambda: max(since(), self._state.throttled_until),
            )
        finally:
            took = self._state.clock.monotonic() - started
            with self._state.lock:
                self._waiting_since = None
                self._waited += took
                self._waits += 1
            self._events.waited(size, took, self.used)

    # Any thread.

    @property
    def used(self) -> int:
        """Bytes that are charged now."""
        with self._state.lock:
            return self._used

    @property
    def waiting_since(self) -> float | None:
        """When the writer began to wait for room, by the monotonic clock; None: it does not."""
        with self._state.lock:
            return self._waiting_since

    def fits(self, size: int) -> bool:
        """Whether `size` bytes more stay within the limit; an empty buffer takes anything."""
        with self._state.lock:
            return self._used == 0 or self._used + size <= self.limit

    def charge(self, size: int) -> None:
        """Charge `size` bytes, whether there is room or not."""
        with self._state.lock:
            self._used += size
            self._peak = max(self._peak, self._used)

    def free(self, size: int) -> None:
        """Free `size` bytes that were charged."""
        with self._state.lock:
            self._used -= size
            self._freed_at = self._state.clock.monotonic()

    def release(self, charges: list[Charge]) -> None:
        """One holder of each charge is done with it; the list is emptied."""
        with self._state.lock:
            for charge in charges:
                charge.holders -= 1
                if charge.holders == 0:
                    self.free(charge.size)
            charges.clear()

    def measure(self, meters: MetricsRecorder) -> None:
        """Note how often and how long the writer waited, and the most that was ever charged."""
        with self._state.lock:
            meters.buffer_waits, meters.buffer_wait = self._waits, self._waited
            meters.buffer_peak = self._peak

    def _stayed_full(self, size: int) -> BufferTimeoutError:
        return BufferTimeoutError(
            f"no room for {size:,} bytes within max.block.ms = {self._max_block_ms}: "
            f"{self.used:,} of {self.limit:,} bytes wait for acknowledgement"
            + throttled_note(self._state.throttled_ms),
            hint="check that the brokers take data; "
            "raise kafka.buffer.memory or kafka.max.block.ms",
        )
