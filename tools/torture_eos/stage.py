"""The drivers of a run: started, listened to, killed; and what is to be done at a later time."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tools.torture_eos.seam.reporting import trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.torture_eos.plans.recipes import Profile
    from tools.torture_eos.spark.driver import Driver, Drivers

_MOST_STARTS = 12


class StuckError(RuntimeError):
    """The stream does not come to its end."""


class Stage:
    """One run, in `folder`; `spec` is what each driver is told to run."""

    def __init__(
        self, drivers: Drivers, profile: Profile, folder: Path, spec: dict[str, Any]
    ) -> None:
        self._drivers = drivers
        self._profile = profile
        self._folder = folder
        self.spec = spec
        self.running: list[Driver] = []
        """Those whose stream has neither ended nor failed, the oldest first."""
        self.used: list[Driver] = []
        """Those of this run that live."""
        self.starts = 0
        self.ended = 0.0
        """When a driver last said that the stream has come to its end; 0 when none has."""
        self.failures: list[str] = []
        self._due: list[tuple[float, Callable[[], None]]] = []

    def prepare(self, count: int, spare: int) -> None:
        """Have so many drivers at rest, for what must not wait, and `spare` more starting."""
        self._drivers.expect(self._profile, max(count - len(self.used), 0) + spare)
        while len(self.used) < count:
            self._take()

    def start(self, **changes: Any) -> Driver:
        """Start the stream on its checkpoint, by a driver at rest if there is one.

        Raises:
            StuckError: it was started too often.
        """
        if self.starts >= _MOST_STARTS:
            raise StuckError(f"started {self.starts} times; {self.failures[-1:]}")
        self.starts += 1
        free = [one for one in self.used if one.alive and one not in self.running]
        driver = free[0] if free else self._take()
        self.running.append(driver)
        self.tell(f"start {self.starts}, log {driver.log}")
        driver.start_stream({**self.spec, **changes})
        return driver

    def listen(self) -> None:
        """Hear what drivers have to say, and notice those that are gone."""
        for driver in list(self.running):
            said = driver.heard()
            if said is not None:
                self.tell(f"driver: {json.dumps(said)[:3000]}")
                self.running.remove(driver)
                if "failed" in said:
                    self.failures.append(said["failed"])
                if "ended" in said:
                    self.ended = time.monotonic()
            elif not driver.alive:
                self.kill(driver)

    def kill(self, *drivers: Driver) -> None:
        """SIGKILL for these drivers and all of their processes."""
        for driver in drivers:
            driver.kill()
            self.forget(driver)

    def forget(self, driver: Driver) -> None:
        """It does not belong to the run any more."""
        self.used.remove(driver)
        if driver in self.running:
            self.running.remove(driver)

    def close(self) -> None:
        """Drivers at rest are given back, others killed."""
        for driver in self.used:
            if driver in self.running or not driver.alive:
                driver.kill()
            else:
                self._drivers.give_back(driver)

    def _take(self) -> Driver:
        driver = self._drivers.take(self._profile)
        driver.begin_run()
        self.used.append(driver)
        return driver

    # Time.

    @property
    def is_something_due(self) -> bool:
        """Whether something is to be done later."""
        return bool(self._due)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Have it done in so many seconds."""
        self._due.append((time.monotonic() + seconds, what))

    def do_what_is_due(self) -> None:
        """All whose time has come."""
        now = time.monotonic()
        due = [what for when, what in self._due if when <= now]
        self._due = [(when, what) for when, what in self._due if when > now]
        for what in due:
            what()

    def tell(self, text: str) -> None:
        """Add it to the trace."""
        trace(self._folder, f"HARNESS {text}")
