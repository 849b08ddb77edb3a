"""A thread that writes while the test steps the sender and advances the clock."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, get_ident
from typing import Any
from unittest.mock import patch

from tests.support.clock import ManualClock
from tests.support.harness.world import World

SOON = 20.0


class WatchedClock(ManualClock):
    """A clock that records the last time each thread has read."""

    def __init__(self) -> None:
        super().__init__(seconds=100.0)
        self._seen: dict[int, float] = {}

    def monotonic(self) -> float:
        now = self._seen[get_ident()] = super().monotonic()
        return now

    def was_read_by_other_thread(self) -> bool:
        """Return True if another thread has read the current time."""
        now = super().monotonic()
        return any(at == now for thread, at in self._seen.copy().items() if thread != get_ident())


class Writer:
    """Run calls in the writer's thread while the test advances the clock."""

    def __init__(self, sim: World, pool: ThreadPoolExecutor) -> None:
        self.sim = sim
        self._pool = pool

    def call(self, work: Callable[[], object], tick: float = 0.005) -> BaseException | None:
        """Run `work` in the thread while stepping the sender; return its exception."""
        return self.finish(self._pool.submit(work), tick)

    def start(self, work: Callable[[], object]) -> Future[object]:
        """Start `work` and return when it wakes the sender, which does not step meanwhile."""
        woken, wakeup = Event(), self.sim.client.network.wakeup

        def wake() -> None:
            woken.set()
            wakeup()

        with patch.object(self.sim.client.network, "wakeup", wake):
            done = self._pool.submit(work)
            assert woken.wait(SOON)
        return done

    def finish(self, done: Future[object], tick: float = 0.005) -> BaseException | None:
        """Step the sender until the started work is done; return the exception that it raised."""
        self.sim.run(lambda: _is_done(done), tick)
        return done.exception(SOON)

    def call_in_step(self, work: Callable[[], object], clock: WatchedClock, tick: float) -> Any:
        """Run `work` in the thread; advance the clock only after the thread has read it."""
        done = self._pool.submit(work)

        def has_looked() -> bool:
            deadline = time.monotonic() + SOON
            while not done.done() and not clock.was_read_by_other_thread():
                assert time.monotonic() < deadline, "it never looks at the clock"
                self.sim.buffer.state.wake_writer()
                time.sleep(0)
            return done.done()

        self.sim.run(has_looked, tick)
        return done.exception(SOON)

    def call_alone(self, work: Callable[[], object]) -> None:
        """Run `work` in the thread without stepping the sender or the clock."""
        self._pool.submit(work).result(SOON)


def _is_done(future: Future[Any]) -> bool:
    try:
        future.exception(0.002)
    except TimeoutError:
        return False
    return True
