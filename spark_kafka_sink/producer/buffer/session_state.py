"""Whether a session goes on, and what its writer waits for: the link between its two threads."""

from __future__ import annotations

from threading import Condition, RLock
from typing import TYPE_CHECKING

from spark_kafka_sink.client.client import LOOK_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.clock import Clock


class SessionState:
    """The error that ended the session, and how many of its batches are incomplete.

    `lock` is the only lock that both threads of a session wait for; `BadRows` and the histograms
    have leaf locks, under which nothing else is taken. It guards this state, the `BufferPool`, the
    `BufferQuotas` and the `Accumulator` together, because the writer waits for a change in any of
    them. `changed` is notified when memory is freed, when a batch is complete, when an error ends
    the session, and when metadata arrives.

    Args:
        clock: the client's.
        wake_sender: ends the sender's poll; any thread may call it.
        check_sender: called while the writer waits; fails the session if the sender's thread died.
    """

    def __init__(
        self, clock: Clock, wake_sender: Callable[[], None], check_sender: Callable[[], None]
    ) -> None:
        self.clock = clock
        self.wake_sender = wake_sender
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self._check_sender = check_sender

        # Guarded by the lock.
        self._error: BaseException | None = None
        self._incomplete = 0
        self._batch_failed = False
        self._throttled_until = 0.0
        self._throttled_ms = 0

    # Any thread.

    @property
    def error(self) -> BaseException | None:
        """What ended the session, if anything has."""
        with self.lock:
            return self._error

    @property
    def incomplete(self) -> int:
        """Batches that are neither acknowledged nor failed, open ones included."""
        with self.lock:
            return self._incomplete

    @property
    def throttled_until(self) -> float:
        """The end of the latest pause that a broker asked for; 0 if there was none."""
        with self.lock:
            return self._throttled_until

    @property
    def throttled_ms(self) -> int:
        """Milliseconds of all pauses that brokers asked for."""
        with self.lock:
            return self._throttled_ms

    def raise_error(self) -> None:
        """Raise what ended the session, if anything has."""
        with self.lock:
            if self._error is not None:
                raise self._error

    def add_incomplete(self, batches: int) -> None:
        """So many batches more have yet to be acknowledged."""
        with self.lock:
            self._incomplete += batches

    def complete(self) -> None:
        """One batch fewer is incomplete."""
        with self.lock:
            self._incomplete -= 1
            self.changed.notify_all()

    def throttled(self, pause_ms: int) -> None:
        """A broker has asked for a pause that begins now."""
        with self.lock:
            until = self.clock.monotonic() + pause_ms / 1000
            self._throttled_until = max(self._throttled_until, until)
            self._throttled_ms += pause_ms

    def mark_failed(self) -> None:
        """A batch has failed for good: from now on flush waits for the error that says so."""
        with self.lock:
            self._batch_failed = True

    def fail(self, error: BaseException) -> None:
        """End the session: every wait of the writer raises `error`, or what came before it."""
        with self.lock:
            self._error = self._error or error
            self.changed.notify_all()

    def notify(self) -> None:
        """Something else that the writer may wait for has changed."""
        with self.lock:
            self.changed.notify_all()

    # Writer thread only.

    def wait_for(
        self,
        done: Callable[[], bool],
        seconds: float | None,
        since: Callable[[], float] = lambda: 0.0,
    ) -> bool:
        """Wait until `done`, called under the lock, is true; False after so many seconds.

        Args:
            done: ends the wait.
            seconds: None for no limit.
            since: called under the lock: a time from which the seconds are counted, if that is
                later than now.

        Raises:
            BaseException: what ended the session.
        """
        started = self.clock.monotonic()
        with self.lock:
            while True:
                self.raise_error()
                if done():
                    return True
                left = None
                if seconds is not None:
                    left = max(started, since()) + seconds - self.clock.monotonic()
                if left is not None and left <= 0:
                    return False
                if not self.changed.wait(LOOK_EVERY if left is None else min(left, LOOK_EVERY)):
                    self._check_sender()

    def wait_until_complete(self) -> None:
        """Wait until every batch is acknowledged; raises what ended the session otherwise."""
        self.wait_for(lambda: self._incomplete == 0 and not self._batch_failed, None)


def throttled_note(pause_ms: int) -> str:
    """Tell in an error for how long brokers have throttled the task; "" if none has."""
    if not pause_ms:
        return ""
    return f"; a quota of the brokers has throttled this task for {pause_ms:,} ms"
