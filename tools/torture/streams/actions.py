"""Actions on processes, brokers and the network when a step is reached."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tools.torture.streams.check import fence_producer
from tools.torture.streams.injection.hooks import RAISE
from tools.torture.streams.scenarios import Action

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.torture.cluster import EosCluster
    from tools.torture.streams.supervisor import Reached, Stage, Stops

_TRANSACTIONS = "__transaction_state"


class Actions:
    """All actions, by name; each releases the process at the step, at once or later."""

    def __init__(self, cluster: EosCluster, stage: Stage, stops: Stops, folder: Path) -> None:
        self._cluster = cluster
        self._stage = stage
        self._stops = stops
        self._folder = folder
        self._paused: list[int] = []
        """Paused processes to resume late."""
        self._held: list[int] = []
        """Faults whose steps are held until another driver reaches its own step."""
        self._all: dict[Action, Callable[[Reached], None]] = {
            Action.NOTHING: lambda at: stops.release(at.number),
            Action.RAISE: lambda at: stops.release(at.number, RAISE),
            Action.KILL_PROCESS: self._kill_process,
            Action.PAUSE_PROCESS: self._pause_process,
            Action.KILL_DRIVER: self._kill_driver,
            Action.KILL_DRIVERS: self._kill_drivers,
            Action.KILL_JVM: self._kill_jvm,
            Action.PAUSE_DRIVER: self._pause_driver,
            Action.SECOND_DRIVER: self._second_driver,
            Action.STOP_QUERY: self._stop_query,
            Action.KILL_EXECUTOR: self._kill_executor,
            Action.KILL_BROKER: self._kill_broker,
            Action.PAUSE_BROKER: self._pause_broker,
            Action.CUT_NETWORK: self._cut_network,
            Action.MOVE_COORDINATORS: self._move_coordinators,
            Action.WAKE_LATE: self._wake_late,
            Action.SLEEP: self._sleep,
            Action.WAKE: self._wake,
            Action.START_SECOND: self._start_second,
            Action.RELEASE_FIRST: self._release_first,
            Action.TAKE_TURNS: self._take_turns,
            Action.FENCE_TASKS: self._fence_tasks,
            Action.EXCEED_TIMEOUT: lambda at: self._release_later(at, at.fault.seconds),
        }

    def do(self, at: Reached) -> None:
        """Execute the action of the fault."""
        if at.process or self._stage.running:
            self._stage.tell(f"{at.fault.action} at {at.fault.stop.step}")
            self._all[at.fault.action](at)

    @property
    def is_holding(self) -> bool:
        """True if a step is held until another driver reaches its own step."""
        return bool(self._held)

    def _release_later(self, at: Reached, seconds: float) -> None:
        self._stage.call_later(seconds, lambda: self._stops.release(at.number))

    def _kill_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGKILL)

    def _pause_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._stops.release(at.number)
        self._stage.call_later(at.fault.seconds, lambda: _signal(at.process, signal.SIGCONT))

    def _kill_driver(self, at: Reached) -> None:
        self._stage.kill(self._stage.running[0])
        self._stops.release(at.number)

    def _kill_drivers(self, at: Reached) -> None:
        self._stage.kill(*self._stage.running)
        self._stops.release(at.number)

    def _kill_jvm(self, at: Reached) -> None:
        driver = self._stage.running[0]
        self._stage.forget(driver)
        driver.kill_without_workers()
        self._stops.release(at.number)

    def _pause_driver(self, at: Reached) -> None:
        first = self._stage.running[0]
        first.pause()
        self._stops.release(at.number)
        self._stage.start()
        # The other driver is then working or has finished.
        self._stage.call_later(2.0 + 4 * at.fault.seconds, first.resume)

    def _second_driver(self, at: Reached) -> None:
        self._stage.start()
        self._release_later(at, at.fault.seconds)

    def _stop_query(self, at: Reached) -> None:
        self._stage.running[0].stop_stream()
        self._release_later(at, 0.3)

    def _kill_executor(self, at: Reached) -> None:
        executors = self._stage.running[0].executors()
        mine = [one for one in executors if at.process in {each.pid for each in one.children(True)}]
        for one in (mine or executors)[:1]:
            _signal(one.pid, signal.SIGKILL)
        self._stops.release(at.number)

    def _kill_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.kill()
        self._stops.release(at.number)
        self._stage.call_later(max(at.fault.seconds, self._cluster.least_down_s), node.start)

    def _pause_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.pause()
        self._stops.release(at.number)
        self._stage.call_later(at.fault.seconds, node.resume)

    def _cut_network(self, at: Reached) -> None:
        gate = self._cluster.gates[at.fault.node]
        gate.close_gate()
        self._stops.release(at.number)
        self._stage.call_later(at.fault.seconds, gate.open_gate)

    def _move_coordinators(self, at: Reached) -> None:
        admin = self._cluster.admin
        self._stops.release(at.number)
        for partition, leader in admin.leaders(_TRANSACTIONS).items():
            admin.move_leader(_TRANSACTIONS, partition, leader % len(self._cluster.nodes) + 1)

    def _wake_late(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._paused.append(at.process)
        psutil.Process(at.process).parent().kill()
        self._stops.release(at.number)

    def _sleep(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._paused.append(at.process)
        self._stops.release(at.number)

    def _start_second(self, at: Reached) -> None:
        self._stage.start()
        self._held.append(at.number)

    def _release_first(self, at: Reached) -> None:
        self.release()
        self._release_later(at, at.fault.seconds)

    def _take_turns(self, at: Reached) -> None:
        self.release()
        self._held.append(at.number)

    def release(self) -> None:
        """Release steps that were held until another driver reached its own step."""
        while self._held:
            self._stops.release(self._held.pop())

    def _fence_tasks(self, at: Reached) -> None:
        """Fence all tasks of the batch whose transactional IDs are in the trace."""
        said = (self._folder / "trace.log").read_text()
        batch = (
            rf"{re.escape(self._stage.spec['topic'])}/stream/[^/ ]+/{at.fault.stop.batch}/[^ \n]+"
        )
        for transactional_id in sorted(set(re.findall(batch, said))):
            fence_producer(self._cluster.bootstrap_servers, transactional_id)
        self._stops.release(at.number)

    def _wake(self, at: Reached) -> None:
        for process in self._paused:
            _signal(process, signal.SIGCONT)
        self._release_later(at, at.fault.seconds)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
