"""A time limit for calls that have none of their own, such as those of remote file systems."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

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
