"""Carries a plan's faults out while drivers run the stream, until it has ended."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.torture_eos.kinds import Deed
from tools.torture_eos.reading import TopicWatch
from tools.torture_eos.seam.reporting import RAISE, at_file, go_file, trace
from tools.torture_eos.steps import LOG, Step

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.torture_eos.cluster import EosCluster
    from tools.torture_eos.driver import Driver, Drivers
    from tools.torture_eos.plan import Fault, Plan

TORN = "TornTransactionError"
OTHER_QUERY = "another query"
_TRANSACTIONS = "__transaction_state"
_POLL_S = 0.01
_MOST_STARTS = 12
_SETTLE_S = 25.0


class StuckError(RuntimeError):
    """The stream does not come to its end."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Process `process` waits at the stop of the `number`th fault; 0 where nobody does."""

    fault: Fault
    number: int
    process: int


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
        self._cluster = cluster
        self._drivers = drivers
        self._plan = plan
        self._folder = folder
        self._spec = spec
        self._running: list[Driver] = []
        self.used: list[Driver] = []
        self._waiting = dict(enumerate(plan.faults))
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._watch = TopicWatch(cluster.bootstrap_servers, spec["topic"], plan.source.partitions)
        self.starts = 0
        self.fired = 0
        self.failures: list[str] = []
        self._asleep: list[int] = []
        self._deeds: dict[Deed, Callable[[Reached], None]] = {
            Deed.NOTHING: lambda at: self._go(at.number),
            Deed.RAISE: lambda at: self._go(at.number, RAISE),
            Deed.KILL_PROCESS: self._kill_process,
            Deed.PAUSE_PROCESS: self._pause_process,
            Deed.KILL_DRIVER: self._kill_driver,
            Deed.KILL_JVM: self._kill_jvm,
            Deed.PAUSE_DRIVER: self._pause_driver,
            Deed.SECOND_DRIVER: self._second_driver,
            Deed.STOP_QUERY: self._stop_query,
            Deed.KILL_EXECUTOR: self._kill_executor,
            Deed.KILL_BROKER: self._kill_broker,
            Deed.PAUSE_BROKER: self._pause_broker,
            Deed.CUT_NETWORK: self._cut_network,
            Deed.MOVE_COORDINATORS: self._move_coordinators,
            Deed.WAKE_LATE: self._wake_late,
            Deed.WAKE: self._wake,
            Deed.OUTLAST: lambda at: self._later(at.fault.seconds, lambda: self._go(at.number)),
        }
        self._arm()
        stops = [fault.stop.as_json() for fault in plan.faults]
        (folder / "steps.json").write_text(json.dumps(stops))

    def run(self, seconds: float) -> None:
        """Until a driver has brought the stream to its end and all others are at rest.

        Raises:
            StuckError: that takes longer, or more starts than faults can be the reason for.
        """
        self._start()
        deadline = time.monotonic() + seconds
        ended = 0.0
        while True:
            self._do_what_is_due()
            self._look_for_stops()
            ended = self._listen() or ended
            if self.is_torn and not self._running:
                return
            if ended and not self._due and not self._running:
                return
            if ended and time.monotonic() > ended + _SETTLE_S:
                self._tell("what still runs is killed")
                self._kill(*self._running)
            if not ended and not self._running:
                self._start()
            if time.monotonic() > deadline:
                raise StuckError(f"not ended after {seconds:.0f} s; {'; '.join(self.failures)}")
            time.sleep(_POLL_S)

    @property
    def is_torn(self) -> bool:
        """The query stops because of a torn batch, and stops again when it is started again."""
        return len(self.failures) > 1 and all(TORN in text for text in self.failures[-2:])

    def is_refused(self, checkpoint: str) -> bool:
        """Whether the same stream with another checkpoint is not written."""
        driver = next(one for one in self.used if one.alive)
        self._tell(f"start with {checkpoint}")
        driver.start_stream({**self._spec, "checkpoint": checkpoint})
        deadline = time.monotonic() + _SETTLE_S
        while driver.alive and time.monotonic() < deadline:
            if said := driver.heard():
                self._tell(f"driver: {json.dumps(said)[:3000]}")
                return OTHER_QUERY in said.get("failed", "")
            time.sleep(_POLL_S)
        self._running.append(driver)
        return False

    def close(self) -> None:
        """Nothing waits any more; drivers at rest are given back, others killed."""
        for number in range(len(self._plan.faults)):
            self._go(number)
        for driver in self.used:
            if driver in self._running or not driver.alive:
                driver.kill()
            else:
                self._drivers.give_back(driver)
        self._watch.close()

    # What drivers do.

    def _start(self) -> Driver:
        """A start of the stream on its checkpoint, by a driver at rest if there is one."""
        if self.starts >= _MOST_STARTS:
            raise StuckError(f"started {self.starts} times; {'; '.join(self.failures)}")
        self.starts += 1
        free = [one for one in self.used if one.alive and one not in self._running]
        driver = free[0] if free else self._drivers.take(self._plan.profile)
        if driver not in self.used:
            self.used.append(driver)
        self._running.append(driver)
        self._tell(f"start {self.starts}, log {driver.log}")
        driver.start_stream(self._spec)
        return driver

    def _listen(self) -> float:
        """The time at which a driver said that the stream has ended, or 0."""
        ended = 0.0
        for driver in list(self._running):
            said = driver.heard()
            if said is not None:
                self._tell(f"driver: {json.dumps(said)[:3000]}")
                self._running.remove(driver)
                if "failed" in said:
                    self.failures.append(said["failed"][:1500])
                ended = time.monotonic() if "ended" in said else ended
            elif not driver.alive:
                self._kill(driver)
        return ended

    def _kill(self, *drivers: Driver) -> None:
        for driver in drivers:
            driver.kill()
            self.used.remove(driver)
            self._running.remove(driver)

    # When a step is reached.

    def _look_for_stops(self) -> None:
        for number, fault in list(self._waiting.items()):
            process = self._who_is_at(number, fault)
            if process is None:
                continue
            del self._waiting[number]
            self.fired += 1
            self._tell(f"{fault.deed} at {fault.stop.step}")
            self._deeds[fault.deed](Reached(fault, number, process))

    def _who_is_at(self, number: int, fault: Fault) -> int | None:
        """The process that has reached the step; 0 where the harness has seen it itself."""
        if fault.stop.step in LOG:
            return 0 if self._watch.count() >= self._records_at(fault) else None
        if fault.stop.step is Step.END_TXN:
            return 0 if self._cluster.end_txns.reached.is_set() else None
        at = at_file(self._folder, number)
        return int(at.read_text()) if at.exists() else None

    def _arm(self) -> None:
        """Have the gates hold back the commit that a fault waits for."""
        ends = [fault.stop for fault in self._plan.faults if fault.stop.step is Step.END_TXN]
        prefix = re.escape(f"{self._spec['topic']}/stream/")
        for stop in ends:
            self._cluster.end_txns.arm(rf"{prefix}[^/]+/{stop.batch}/", stop.hit)
        if not ends:
            self._cluster.end_txns.arm("", 0)

    def _records_at(self, fault: Fault) -> int:
        assert fault.stop.batch is not None
        source = self._plan.source
        numbers = source.numbers_of(fault.stop.batch)
        full = fault.stop.step is Step.LOG_FULL
        return source.good_before(numbers.stop if full else numbers.start + len(numbers) // 2)

    def _go(self, number: int, word: str = "go") -> None:
        if self._plan.faults[number].stop.step is Step.END_TXN:
            self._cluster.end_txns.released.set()
        path = go_file(self._folder, number)
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_text(word)
            part.rename(path)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + seconds, what))

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        due = [what for when, what in self._due if when <= now]
        self._due = [(when, what) for when, what in self._due if when > now]
        for what in due:
            what()

    # Deeds.

    def _kill_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGKILL)

    def _pause_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._go(at.number)
        self._later(at.fault.seconds, lambda: _signal(at.process, signal.SIGCONT))

    def _kill_driver(self, at: Reached) -> None:
        self._kill(self._running[0])
        self._go(at.number)

    def _kill_jvm(self, at: Reached) -> None:
        driver = self._running.pop(0)
        self.used.remove(driver)
        driver.kill_alone()
        self._go(at.number)

    def _pause_driver(self, at: Reached) -> None:
        first = self._running[0]
        first.pause()
        self._go(at.number)
        self._start()
        # When the other is amid its work, or has done it.
        self._later(2.0 + 4 * at.fault.seconds, first.resume)

    def _second_driver(self, at: Reached) -> None:
        self._start()
        self._later(at.fault.seconds, lambda: self._go(at.number))

    def _stop_query(self, at: Reached) -> None:
        self._running[0].stop_stream()
        self._later(0.3, lambda: self._go(at.number))

    def _kill_executor(self, at: Reached) -> None:
        executors = self._running[0].executors()
        mine = [one for one in executors if at.process in {each.pid for each in one.children(True)}]
        for one in (mine or executors)[:1]:
            _signal(one.pid, signal.SIGKILL)
        self._go(at.number)

    def _kill_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.kill()
        self._go(at.number)
        self._later(at.fault.seconds, node.start)

    def _pause_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.pause()
        self._go(at.number)
        self._later(at.fault.seconds, node.resume)

    def _cut_network(self, at: Reached) -> None:
        gate = self._cluster.gates[at.fault.node]
        gate.close_gate()
        self._go(at.number)
        self._later(at.fault.seconds, gate.open_gate)

    def _move_coordinators(self, at: Reached) -> None:
        admin = self._cluster.admin
        self._go(at.number)
        for partition, leader in admin.leaders(_TRANSACTIONS).items():
            admin.move_leader(_TRANSACTIONS, partition, leader % len(self._cluster.nodes) + 1)

    def _wake_late(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._asleep.append(at.process)
        self._go(at.number)

    def _wake(self, at: Reached) -> None:
        for process in self._asleep:
            _signal(process, signal.SIGCONT)
        self._later(at.fault.seconds, lambda: self._go(at.number))

    def _tell(self, text: str) -> None:
        trace(self._folder, f"HARNESS {text}")


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
