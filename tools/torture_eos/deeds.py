"""What is done to processes, brokers and the network when a step is reached."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tools.torture_eos.kafka.reading import take_over
from tools.torture_eos.plans.kinds import Deed
from tools.torture_eos.seam.reporting import RAISE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.torture_eos.kafka.cluster import EosCluster
    from tools.torture_eos.stage import Stage
    from tools.torture_eos.stops import Reached, Stops

_TRANSACTIONS = "__transaction_state"


class Deeds:
    """All of them, by name; each lets go on who waits at the step, at once or later."""

    def __init__(self, cluster: EosCluster, stage: Stage, stops: Stops, folder: Path) -> None:
        self._cluster = cluster
        self._stage = stage
        self._stops = stops
        self._folder = folder
        self._asleep: list[int] = []
        """Processes that are to be woken late."""
        self._held: list[int] = []
        """Faults whose steps last until another driver is at its own."""
        self._all: dict[Deed, Callable[[Reached], None]] = {
            Deed.NOTHING: lambda at: stops.let_go(at.number),
            Deed.RAISE: lambda at: stops.let_go(at.number, RAISE),
            Deed.KILL_PROCESS: self._kill_process,
            Deed.PAUSE_PROCESS: self._pause_process,
            Deed.KILL_DRIVER: self._kill_driver,
            Deed.KILL_DRIVERS: self._kill_drivers,
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
            Deed.SLEEP: self._sleep,
            Deed.WAKE: self._wake,
            Deed.START_SECOND: self._start_second,
            Deed.LET_FIRST_GO: self._let_first_go,
            Deed.TAKE_TURNS: self._take_turns,
            Deed.FENCE_TASKS: self._fence_tasks,
            Deed.OUTLAST: lambda at: self._let_go_later(at, at.fault.seconds),
        }

    def do(self, at: Reached) -> None:
        """What the fault says."""
        if at.process or self._stage.running:
            self._stage.tell(f"{at.fault.deed} at {at.fault.stop.step}")
            self._all[at.fault.deed](at)

    @property
    def is_holding(self) -> bool:
        """Whether a step lasts until another driver is at its own."""
        return bool(self._held)

    def _let_go_later(self, at: Reached, seconds: float) -> None:
        self._stage.later(seconds, lambda: self._stops.let_go(at.number))

    def _kill_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGKILL)

    def _pause_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._stops.let_go(at.number)
        self._stage.later(at.fault.seconds, lambda: _signal(at.process, signal.SIGCONT))

    def _kill_driver(self, at: Reached) -> None:
        self._stage.kill(self._stage.running[0])
        self._stops.let_go(at.number)

    def _kill_drivers(self, at: Reached) -> None:
        self._stage.kill(*self._stage.running)
        self._stops.let_go(at.number)

    def _kill_jvm(self, at: Reached) -> None:
        driver = self._stage.running[0]
        self._stage.forget(driver)
        driver.kill_alone()
        self._stops.let_go(at.number)

    def _pause_driver(self, at: Reached) -> None:
        first = self._stage.running[0]
        first.pause()
        self._stops.let_go(at.number)
        self._stage.start()
        # When the other is amid its work, or has done it.
        self._stage.later(2.0 + 4 * at.fault.seconds, first.resume)

    def _second_driver(self, at: Reached) -> None:
        self._stage.start()
        self._let_go_later(at, at.fault.seconds)

    def _stop_query(self, at: Reached) -> None:
        self._stage.running[0].stop_stream()
        self._let_go_later(at, 0.3)

    def _kill_executor(self, at: Reached) -> None:
        executors = self._stage.running[0].executors()
        mine = [one for one in executors if at.process in {each.pid for each in one.children(True)}]
        for one in (mine or executors)[:1]:
            _signal(one.pid, signal.SIGKILL)
        self._stops.let_go(at.number)

    def _kill_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.kill()
        self._stops.let_go(at.number)
        self._stage.later(max(at.fault.seconds, self._cluster.least_down_s), node.start)

    def _pause_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.pause()
        self._stops.let_go(at.number)
        self._stage.later(at.fault.seconds, node.resume)

    def _cut_network(self, at: Reached) -> None:
        gate = self._cluster.gates[at.fault.node]
        gate.close_gate()
        self._stops.let_go(at.number)
        self._stage.later(at.fault.seconds, gate.open_gate)

    def _move_coordinators(self, at: Reached) -> None:
        admin = self._cluster.admin
        self._stops.let_go(at.number)
        for partition, leader in admin.leaders(_TRANSACTIONS).items():
            admin.move_leader(_TRANSACTIONS, partition, leader % len(self._cluster.nodes) + 1)

    def _wake_late(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._asleep.append(at.process)
        psutil.Process(at.process).parent().kill()
        self._stops.let_go(at.number)

    def _sleep(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._asleep.append(at.process)
        self._stops.let_go(at.number)

    def _start_second(self, at: Reached) -> None:
        self._stage.start()
        self._held.append(at.number)

    def _let_first_go(self, at: Reached) -> None:
        self.release()
        self._let_go_later(at, at.fault.seconds)

    def _take_turns(self, at: Reached) -> None:
        self.release()
        self._held.append(at.number)

    def release(self) -> None:
        """Steps that last until another driver is at its own end."""
        while self._held:
            self._stops.let_go(self._held.pop())

    def _fence_tasks(self, at: Reached) -> None:
        """All of the batch, or those whose commits have not been answered."""
        said = (self._folder / "trace.log").read_text()
        batch = (
            rf"{re.escape(self._stage.spec['topic'])}/stream/[^/ ]+/{at.fault.stop.batch}/[^ \n]+"
        )
        for transactional_id in sorted(set(re.findall(batch, said))):
            take_over(self._cluster.bootstrap_servers, transactional_id)
        self._stops.let_go(at.number)

    def _wake(self, at: Reached) -> None:
        for process in self._asleep:
            _signal(process, signal.SIGCONT)
        self._let_go_later(at, at.fault.seconds)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
