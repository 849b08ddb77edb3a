"""The slow steps on the way to a broker, made beside the sender's loop.

They read certificates, fetch tokens, ask a KDC, hash passwords.

Each step has a daemon thread of its own, as each name has that is looked up (resolver.py): one
that hangs does not keep the process from ending.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.client.channel.authenticator import Step

MOST = 64
"""Threads at a time: where nothing answers, each attempt to connect leaves one behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What became of a step of `owner`'s: the message that it returned, or the error it raised."""

    owner: object
    message: bytes | None = field(default=None, repr=False)
    error: Exception | None = None

    @property
    def failure(self) -> OSError | KafkaProdError | None:
        """What ends the connection: a library's own error by its class, never by its text."""
        if self.error is None or isinstance(self.error, OSError | KafkaProdError):
            return self.error
        return AuthenticationError(
            f"the SASL login failed with an unexpected {type(self.error).__name__}",
            hint="Check the kafka.sasl.* options and the files that they name",
        )


class LoginSteps(Protocol):
    """Makes steps; both calls return at once."""

    def run(self, owner: object, step: Step, wakeup: Callable[[], None]) -> None:
        """Make a step; `wakeup` is called, from any thread, when there is a result."""

    def results(self) -> list[StepResult]:
        """Those that have come since the last call."""


class LoginThreads:
    """Makes each step on a thread, `MOST` at a time; the sender thread alone calls the methods."""

    def __init__(self) -> None:
        self._done: SimpleQueue[StepResult] = SimpleQueue()
        self._waiting: deque[tuple[object, Step, Callable[[], None]]] = deque()
        self._running = 0

    def run(self, owner: object, step: Step, wakeup: Callable[[], None]) -> None:
        """Begin a step, or leave it until there is room for another thread."""
        self._waiting.append((owner, step, wakeup))
        self._begin()

    def results(self) -> list[StepResult]:
        """Those that have come since the last call."""
        found = []
        while not self._done.empty():
            found.append(self._done.get())
        self._running -= len(found)
        self._begin()
        return found

    def _begin(self) -> None:
        while self._waiting and self._running < MOST:
            owner, step, wakeup = self._waiting.popleft()
            self._running += 1
            thread = Thread(
                target=self._run, args=(owner, step, wakeup), name="kafkaprod-login", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # the process may have no more threads
                self._done.put(StepResult(owner=owner, error=OSError(str(error))))
                wakeup()

    def _run(self, owner: object, step: Step, wakeup: Callable[[], None]) -> None:
        try:
            result = StepResult(owner=owner, message=step())
        except Exception as error:  # noqa: BLE001 - the sender thread raises it
            result = StepResult(owner=owner, error=error)
        self._done.put(result)
        wakeup()
