"""A time limit for calls that have no timeout of their own."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock, Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_timed_out_threads: dict[str, set[Thread]] = {}
"""The threads of calls that have timed out, by key. Guarded by `_lock`."""
_lock = Lock()


def run_with_timeout(seconds: float, key: str, call: Callable[[], T]) -> T:
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
    thread = Thread(target=_run_call, args=(call, future), name="kafkaprod-deadline", daemon=True)
    thread.start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            return future.result()  # The call has ended just after the limit.
        with _lock:
            _timed_out_threads.setdefault(key, set()).add(thread)
        raise TimeoutError(f"no response within {seconds:g} s") from None


def _run_call(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        future.set_exception(error)
