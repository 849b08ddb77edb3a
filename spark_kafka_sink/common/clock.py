"""A clock that tests can replace, and a deadline for calls without a timeout."""

from __future__ import annotations

import time
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock(Protocol):
    """What the producer asks of a clock."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as Kafka's timestamps count."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """See `Clock`."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock for tests: it advances only when told to, both readings together."""

    __slots__ = ("_seconds", "_start_ms")

    def __init__(self, seconds: float = 0.0, start_ms: int = 0) -> None:
        self._seconds = seconds
        self._start_ms = start_ms

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._seconds

    def wall_ms(self) -> int:
        """See `Clock`."""
        return self._start_ms + int(self._seconds * 1_000)

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._seconds += seconds


T = TypeVar("T")

_hanging: dict[str, Thread] = {}
"""Calls that have not come back, by what they call: each is waited for once."""


def within(seconds: float, key: str, call: Callable[[], T]) -> T:
    """What `call` returns or raises, in a thread of its own that is left behind when it hangs.

    Args:
        seconds: how long to wait.
        key: what is called; while an earlier call under the same key hangs, no other is made.
        call: may be abandoned at any point.

    Raises:
        TimeoutError: it has not come back, or an earlier one has not.
    """
    earlier = _hanging.pop(key, None)
    if earlier is not None and earlier.is_alive():
        _hanging[key] = earlier
        raise TimeoutError("an earlier attempt has not come back yet")
    future: Future[T] = Future()
    thread = Thread(target=_run, args=(call, future), name="kafkaprod-deadline", daemon=True)
    thread.start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise
        _hanging[key] = thread
        raise TimeoutError(f"no answer within {seconds:g} s") from None


def _run(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
        future.set_exception(error)
