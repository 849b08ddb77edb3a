"""Supervises the Spark drivers of a run, and injects the faults at the stops of the plan."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tools.torture.cluster import ProxiedCluster
from tools.torture.streams.actions import Actions
from tools.torture.streams.driver import Driver
from tools.torture.streams.injection.hooks import trace, trace_size
from tools.torture.streams.plan import Plan
from tools.torture.streams.scenarios import Action
from tools.torture.streams.stops import Stops

_TWO_DRIVERS = frozenset({Action.PAUSE_DRIVER, Action.SECOND_DRIVER, Action.START_SECOND})
TORN = "TornTransactionError"
OTHER_QUERY = "another query"
_POLL_S = 0.01
_SETTLE_S = 25.0
_MAX_S = 900.0
_REFUSED_S = 120.0
_MAX_STARTS = 12


class StuckError(RuntimeError):
    """The stream did not finish."""


class Supervisor:
    """Runs the drivers of a plan; `spec` is the command for the drivers."""

    def __init__(
        self, cluster: ProxiedCluster, plan: Plan, folder: Path, spec: dict[str, Any]
    ) -> None:
        self._plan = plan
        self._folder = folder
        self.spec = spec
        self.stops = Stops(cluster, plan, folder, spec["topic"])
        self._actions = Actions(cluster, self, folder)
        self.running: list[Driver] = []
        """Drivers whose stream is running, oldest first."""
        self.drivers: list[Driver] = []
        """Drivers that have not been killed."""
        self._numbers = count(1)
        self.starts = 0
        self.ended = 0.0
        """The time at which a driver last reported the end of the stream, or 0."""
        self.failures: list[str] = []
        self._due: list[tuple[float, Callable[[], None]]] = []

    def run(self, seconds: float) -> None:
        """Run until a driver has finished the stream and all other drivers are idle.

        Raises:
            StuckError: no step is reached for a long time, the stream does not finish, or the
                stream is restarted too often.
        """
        self.ended = 0.0
        self.prepare(1 + any(fault.action in _TWO_DRIVERS for fault in self._plan.faults))
        self.start()
        traced, deadline = 0, time.monotonic() + seconds
        latest = deadline + _MAX_S
        while self.running or not (self.is_torn or (self.ended and not self._due)):
            self._turn()
            if (size := trace_size(self._folder)) > traced:
                traced, deadline = size, min(time.monotonic() + seconds, latest)
            if not self.ended and not self.running and not self.is_torn:
                self.start()
            if time.monotonic() > deadline:
                raise StuckError(f"no step for {seconds:.0f} s; {self.failures[-1:]}")
            time.sleep(_POLL_S)

    def _turn(self) -> None:
        self._run_due_calls()
        for at in self.stops.take_reached():
            self._actions.do(at)
        self._listen()
        if self._actions.is_holding and (self.ended or len(self.running) < 2):
            self._actions.release()
        if self.ended and time.monotonic() > self.ended + _SETTLE_S:
            self.log("killing the remaining drivers")
            self.kill(*self.running)

    @property
    def is_torn(self) -> bool:
        """True if the query fails because of a torn batch, even after a restart."""
        last = self.failures[-2:]
        return len(last) > 1 and all(TORN in text for text in last)

    def is_refused(self, checkpoint: str) -> bool:
        """Return True if the same stream is rejected with a different checkpoint."""
        self.start(checkpoint=checkpoint)
        before, deadline = len(self.failures), time.monotonic() + _REFUSED_S
        while self.running and time.monotonic() < deadline:
            self._listen()
            time.sleep(_POLL_S)
        return any(OTHER_QUERY in text for text in self.failures[before:])

    def close(self) -> None:
        """Release all processes, and kill all drivers."""
        self.stops.close()
        self.kill(*self.drivers)

    # The drivers.

    def prepare(self, count: int) -> None:
        """Start drivers until there are `count`."""
        ready = len(self.drivers)
        while len(self.drivers) < count:
            folder = self._folder / f"driver-{next(self._numbers)}"
            self.drivers.append(Driver(self._plan.profile, folder))
        for driver in self.drivers[ready:]:
            driver.wait_ready()

    def start(self, **changes: Any) -> None:
        """Start the stream with its checkpoint, on an idle driver of the run if there is one.

        Raises:
            StuckError: the stream was started too many times.
        """
        if self.starts >= _MAX_STARTS:
            raise StuckError(f"started {self.starts} times; {self.failures[-1:]}")
        self.starts += 1
        self.prepare(len(self.running) + 1)
        driver = next(candidate for candidate in self.drivers if candidate not in self.running)
        self.running.append(driver)
        self.log(f"start {self.starts}, log {driver.log}")
        driver.send({"start": {**self.spec, **changes}})

    def _listen(self) -> None:
        """Read the messages of the drivers, and detect drivers that have exited."""
        for driver in list(self.running):
            said = driver.next_message()
            if said is not None:
                self.log(f"driver: {json.dumps(said)[:3000]}")
                self.running.remove(driver)
                if "failed" in said:
                    self.failures.append(said["failed"])
                if "ended" in said:
                    self.ended = time.monotonic()
        self.kill(*(driver for driver in self.drivers if not driver.alive))

    def kill(self, *drivers: Driver) -> None:
        """Send SIGKILL to all processes of these drivers."""
        for driver in drivers:
            driver.kill()
            self.forget(driver)

    def forget(self, driver: Driver) -> None:
        """Remove a driver from the run."""
        self.drivers.remove(driver)
        if driver in self.running:
            self.running.remove(driver)

    # Scheduled calls and the trace.

    def call_later(self, seconds: float, what: Callable[[], None]) -> None:
        """Schedule a call in `seconds` seconds."""
        self._due.append((time.monotonic() + seconds, what))

    def _run_due_calls(self) -> None:
        now = time.monotonic()
        due = [what for when, what in self._due if when <= now]
        self._due = [(when, what) for when, what in self._due if when > now]
        for what in due:
            what()

    def log(self, text: str) -> None:
        """Append a line to the trace."""
        trace(self._folder, f"HARNESS {text}")
