"""A clock that tests can replace, and a deadline for calls without a timeout."""

from __future__ import annotations

import time
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_timed_out_threads: dict[str, set[Thread]] = {}
"""The threads of calls that have timed out, by key. Guarded by `_lock`."""
_lock = Lock()


class Clock(Protocol):
    """The interface of a clock."""

    def monotonic(self) -> float:
        """Return the seconds since a fixed moment. The value never decreases."""
        ...

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970, as in Kafka's timestamps."""
        ...


class SystemClock:
    """The system clock."""

    __slots__ = ()

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000


def within(seconds: float, key: str, call: Callable[[], T]) -> T:
    """Run `call` on a separate thread, and return its result or raise its error.

    The thread is abandoned if the call does not return in time.

    Args:
        seconds: maximum time to wait, in seconds.
        key: identifies the call. No new call is started until an earlier call with the same key has
            returned.
        call: the function to call; it might be abandoned at any point.

    Raises:
        TimeoutError: this call or an earlier call with the same key has not returned.
    """
    with _lock:
        threads = {thread for thread in _timed_out_threads.pop(key, ()) if thread.is_alive()}
        if threads:
            _timed_out_threads[key] = threads
            raise TimeoutError("an earlier attempt has not returned yet")
    future: Future[T] = Future()
    thread = Thread(target=_run, args=(call, future), name="kafkaprod-deadline", daemon=True)
    thread.start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise
        with _lock:
            _timed_out_threads.setdefault(key, set()).add(thread)
        raise TimeoutError(f"no response within {seconds:g} s") from None


def _run(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        future.set_exception(error)
