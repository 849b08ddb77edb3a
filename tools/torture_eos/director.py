"""Carries a plan's faults out while drivers run the stream, until it has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tools.torture_eos.deeds import Deeds
from tools.torture_eos.plans.kinds import KILL_DRIVERS, TWO_DRIVERS
from tools.torture_eos.seam.reporting import trace_size
from tools.torture_eos.stage import Stage, StuckError
from tools.torture_eos.stops import Stops

if TYPE_CHECKING:
    from pathlib import Path

    from tools.torture_eos.kafka.cluster import EosCluster
    from tools.torture_eos.plans.plan import Plan
    from tools.torture_eos.spark.driver import Drivers

TORN = "TornTransactionError"
OTHER_QUERY = "another query"
_POLL_S = 0.01
_SETTLE_S = 25.0
_MOST_S = 900.0
_REFUSED_S = 120.0


class Director:
    """One run, in `folder`; `spec` is what a driver is told to run."""

    def __init__(
        self,
        cluster: EosCluster,
        drivers: Drivers,
        plan: Plan,
        folder: Path,
        spec: dict[str, Any],
    ) -> None:
        self._folder = folder
        self.stage = Stage(drivers, plan.profile, folder, spec)
        self.stops = Stops(cluster, plan, folder, spec["topic"])
        self._drivers_wanted = 2 if any(fault.deed in TWO_DRIVERS for fault in plan.faults) else 1
        self._deeds = Deeds(cluster, self.stage, self.stops, folder)

    def run(self, seconds: float) -> None:
        """Until a driver has brought the stream to its end and all others are at rest.

        Raises:
            StuckError: no step is reached for so many seconds, steps are reached without end, or
                the stream is started more often than faults can be the reason for.
        """
        stage = self.stage
        stage.ended = 0.0
        stage.prepare(self._drivers_wanted, self._deaths_ahead)
        stage.start()
        traced, deadline = 0, time.monotonic() + seconds
        latest = deadline + _MOST_S
        while not self._is_over():
            self._turn()
            if (size := trace_size(self._folder)) > traced:
                traced, deadline = size, min(time.monotonic() + seconds, latest)
            if not stage.ended and not stage.running and not self.is_torn:
                stage.start()
            if time.monotonic() > deadline:
                raise StuckError(f"no step for {seconds:.0f} s; {stage.failures[-1:]}")
            time.sleep(_POLL_S)

    @property
    def _deaths_ahead(self) -> int:
        """How many drivers are to be killed."""
        return sum(fault.deed in KILL_DRIVERS for fault in self.stops.waiting)

    def _is_over(self) -> bool:
        stage = self.stage
        if stage.running:
            return False
        return self.is_torn or bool(stage.ended and not stage.is_something_due)

    def _turn(self) -> None:
        stage = self.stage
        stage.do_what_is_due()
        for at in self.stops.take_reached():
            self._deeds.do(at)
        stage.listen()
        if self._deeds.is_holding and (stage.ended or len(stage.running) < 2):
            self._deeds.release()
        if stage.ended and time.monotonic() > stage.ended + _SETTLE_S:
            stage.tell("what still runs is killed")
            stage.kill(*stage.running)

    @property
    def is_torn(self) -> bool:
        """The query stops because of a torn batch, and stops again when it is started again."""
        last = self.stage.failures[-2:]
        return len(last) > 1 and all(TORN in text for text in last)

    def is_refused(self, checkpoint: str) -> bool:
        """Whether the same stream with another checkpoint is not written."""
        stage = self.stage
        stage.start(checkpoint=checkpoint)
        before, deadline = len(stage.failures), time.monotonic() + _REFUSED_S
        while stage.running and time.monotonic() < deadline:
            stage.listen()
            time.sleep(_POLL_S)
        return any(OTHER_QUERY in text for text in stage.failures[before:])

    def close(self) -> None:
        """Nothing waits any more; drivers at rest are given back, others killed."""
        self.stops.close()
        self.stage.close()
