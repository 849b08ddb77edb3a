"""Run blocking calls outside the sender thread: name lookups, login steps, reading of TLS stores.

Each running call has its own daemon thread; a limit queues further calls. In a thread pool, a few
hanging calls would block all other calls, and the pool's threads would prevent the process from
exiting.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a call for `owner`: the value that was returned, or the error."""

    owner: object
    value: Any = field(default=None, repr=False)
    error: BaseException | None = None

    @property
    def failure(self) -> OSError | KafkaProdError | None:
        """The error that ends the connection, or None. The text of library errors is omitted."""
        if self.error is None or isinstance(self.error, OSError | KafkaProdError):
            return self.error
        return AuthenticationError(
            f"the SASL login failed with an unexpected {type(self.error).__name__}",
            hint="Check the kafka.sasl.* options and the files that they specify.",
        )


class Calls(Protocol):
    """Runs calls. All methods return immediately."""

    def run(self, owner: Hashable, call: Callable[[], Any], wakeup: Callable[[], None]) -> None:
        """Start a call. When the result is available, any thread calls `wakeup`."""

    def cancel(self, owner: Hashable) -> None:
        """Drop the owner's call if it has not started."""

    def take_results(self) -> list[CallResult]:
        """Return the results since the last call."""


class BackgroundCalls:
    """Runs each call on a thread; used by the sender thread.

    Args:
        name: the name of the threads.
        limit: maximum number of threads; a call that hangs keeps its thread.
    """

    def __init__(self, name: str, limit: float = inf) -> None:
        self._name = name
        self._limit = limit
        self._done: SimpleQueue[CallResult] = SimpleQueue()
        self._waiting: deque[tuple[Hashable, Callable[[], Any], Callable[[], None]]] = deque()
        self._owners: set[Hashable] = set()
        """The owners of calls that wait or run, or whose results were not returned yet."""
        self._running = 0

    def run(self, owner: Hashable, call: Callable[[], Any], wakeup: Callable[[], None]) -> None:
        """Start a call, or queue it until a thread can be started.

        Do nothing if an earlier call of the same owner has not returned, because its result serves
        both.
        """
        if owner not in self._owners:
            self._owners.add(owner)
            self._waiting.append((owner, call, wakeup))
            self._start_threads()

    def cancel(self, owner: Hashable) -> None:
        """Drop the owner's call if it has not started, so that it delays no other call."""
        waiting = deque(call for call in self._waiting if call[0] != owner)
        if len(waiting) < len(self._waiting):
            self._waiting = waiting
            self._owners.discard(owner)

    def take_results(self) -> list[CallResult]:
        """Return the results since the last call."""
        results = []
        while not self._done.empty():
            results.append(self._done.get())
        self._running -= len(results)
        self._owners.difference_update(result.owner for result in results)
        self._start_threads()
        return results

    def _start_threads(self) -> None:
        while self._waiting and self._running < self._limit:
            owner, call, wakeup = self._waiting.popleft()
            self._running += 1
            thread = Thread(
                target=self._run_call, args=(owner, call, wakeup), name=self._name, daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # The process cannot start more threads.
                self._done.put(CallResult(owner=owner, error=OSError(str(error))))
                wakeup()

    def _run_call(
        self, owner: Hashable, call: Callable[[], Any], wakeup: Callable[[], None]
    ) -> None:
        try:
            result = CallResult(owner=owner, value=call())
        except BaseException as error:  # noqa: BLE001 - such as a panic of a library in Rust
            result = CallResult(owner=owner, error=error)
        self._done.put(result)
        wakeup()
