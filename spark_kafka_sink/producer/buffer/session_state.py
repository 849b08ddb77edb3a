"""The state that a session's two threads share: its lock, its error, and the writer's waits."""

from __future__ import annotations

from threading import Condition, RLock
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.kafka.client.client import THREAD_CHECK_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.clock import Clock

_FLUSH_MARGIN_S = 30.0
"""Seconds added to twice delivery.timeout.ms as the time that flush waits without progress."""


class SessionState:
    """A session's error, its number of incomplete batches, and the lock that both threads use.

    All other locks that both threads take (in `Metadata`, `BadRowCounter` and the histograms) are
    leaf locks: no other lock is taken while one is held. `lock` guards this state, the
    `BufferPool`, the `BufferQuotas` and the `Accumulator` together, because the writer waits for a
    change in any of them. `changed` is notified when memory is freed, when a batch completes, when
    an error ends the session, and when metadata arrives.

    Args:
        clock: the client's clock.
        wake_sender: interrupts the sender's poll; any thread may call it.
        check_sender: called with the seconds that the writer has waited; fails the session if the
            sender thread has died or stalls.
    """

    def __init__(
        self, clock: Clock, wake_sender: Callable[[], None], check_sender: Callable[[float], None]
    ) -> None:
        self.clock = clock
        self.wake_sender = wake_sender
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self._check_sender = check_sender

        # Changed under the lock. Any thread may read one of these attributes without the lock.
        self.error: BaseException | None = None
        """The error that ended the session, or None."""
        self.incomplete_batches = 0
        """Number of batches that are neither acknowledged nor failed, including open batches."""
        self.throttled_until = 0.0
        """End of the latest throttle pause, in seconds (monotonic clock); 0 before the first."""
        self.throttled_ms = 0
        """Total duration of all throttle pauses, in milliseconds."""

        # Guarded by the lock.
        self._batch_failed = False
        self._completed_at = 0.0
        """Time of the latest completion of a batch, in seconds (monotonic clock)."""

    # Any thread may call the methods below.

    def raise_error(self) -> None:
        """Raise the error that ended the session, if there is one."""
        with self.lock:
            if self.error is not None:
                raise self.error

    def add_incomplete(self, batches: int) -> None:
        """Add to the number of incomplete batches."""
        with self.lock:
            self.incomplete_batches += batches

    def complete(self) -> None:
        """Subtract one from the number of incomplete batches."""
        with self.lock:
            self.incomplete_batches -= 1
            self._completed_at = self.clock.monotonic()
            self.changed.notify_all()

    def add_throttle_pause(self, pause_ms: int) -> None:
        """Record a throttle pause that starts now."""
        with self.lock:
            until = self.clock.monotonic() + pause_ms / 1000
            self.throttled_until = max(self.throttled_until, until)
            self.throttled_ms += pause_ms

    def expect_error(self) -> None:
        """Record a permanently failed batch, so that flush waits for the session's error."""
        with self.lock:
            self._batch_failed = True

    def end(self, error: BaseException) -> None:
        """End the session with `error` unless it has already failed.

        Each wait of the writer raises the session's error.
        """
        with self.lock:
            self.error = self.error or error
            self.changed.notify_all()

    def wake_writer(self) -> None:
        """Wake the writer, so that it checks the condition that it waits for."""
        with self.lock:
            self.changed.notify_all()

    # Only the writer thread calls the methods below.

    def wait_for(
        self, done: Callable[[], bool], seconds: float, since: Callable[[], float] = lambda: 0.0
    ) -> bool:
        """Wait until `done` returns True; return False after the timeout.

        Args:
            done: called under the lock; the wait ends when it returns True.
            seconds: the timeout.
            since: called under the lock; returns the start of the timeout if it is later than the
                start of the wait.

        Raises:
            BaseException: the error that ended the session.
        """
        started = self.clock.monotonic()
        with self.lock:
            while True:
                self.raise_error()
                if done():
                    return True
                remaining_s = max(started, since()) + seconds - self.clock.monotonic()
                if remaining_s <= 0:
                    return False
                wait = min(remaining_s, THREAD_CHECK_S)
                if not self.changed.wait(wait):
                    self._check_sender(wait)

    def wait_until_complete(self, seconds: float) -> None:
        """Wait until every batch is acknowledged, or raise the error that ended the session.

        `seconds` limits the time without a completed batch or a throttle pause (`flush_timeout`).
        The sender fails each batch earlier, so this limit is reached only if the sender has lost a
        batch.
        """
        if not self.wait_for(
            lambda: self.incomplete_batches == 0 and not self._batch_failed,
            seconds,
            lambda: max(self._completed_at, self.throttled_until),
        ):
            self.end(
                DeliveryError(
                    f"{plural(self.incomplete_batches, 'batch', 'batches')} made no progress for "
                    f"{seconds:g} s, more than twice delivery.timeout.ms",
                    hint="Run the write again, and report this as a bug in spark-kafka-sink.",
                )
            )
            self.raise_error()


def flush_timeout(delivery_timeout_ms: int) -> float:
    """Return the seconds without progress after which a flush fails."""
    return 2 * delivery_timeout_ms / 1000 + _FLUSH_MARGIN_S


def throttled_note(pause_ms: int) -> str:
    """Return a note on how long brokers have throttled the task, or "" if they have not."""
    if not pause_ms:
        return ""
    return f"; a quota of the brokers has throttled this task for {pause_ms:,} ms"
