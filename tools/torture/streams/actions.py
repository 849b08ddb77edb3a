"""The actions of a plan on processes, brokers and the network."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tools.torture.cluster import ProxiedCluster
from tools.torture.streams.check import fence_producer
from tools.torture.streams.injection.hooks import RAISE
from tools.torture.streams.scenarios import Action
from tools.torture.streams.stops import Reached

if TYPE_CHECKING:
    from tools.torture.streams.supervisor import Supervisor

_TRANSACTIONS = "__transaction_state"
_DELAYED = frozenset(
    {
        Action.SECOND_DRIVER,
        Action.STOP_QUERY,
        Action.RELEASE_FIRST,
        Action.WAKE,
        Action.EXCEED_TIMEOUT,
    }
)
"""Actions that release the process at the step after `seconds`; the others release it at once."""


class Actions:
    """The actions of a plan. `_kill_driver` implements `Action.KILL_DRIVER`, and so on."""

    def __init__(self, cluster: ProxiedCluster, supervisor: Supervisor, folder: Path) -> None:
        self._cluster = cluster
        self._supervisor = supervisor
        self._stops = supervisor.stops
        self._folder = folder
        self._paused: list[int] = []
        """Paused processes that `Action.WAKE` resumes."""
        self._held: list[int] = []
        """Faults whose steps are delayed until another driver reaches its step."""

    def do(self, at: Reached) -> None:
        """Execute the action of the fault, and release the process at the step."""
        if not at.process and not self._supervisor.running:
            return
        action = at.fault.action
        self._supervisor.log(f"{action} at {at.fault.stop.step}")
        getattr(self, f"_{action.name.lower()}")(at)
        if action in _DELAYED:
            self._supervisor.call_later(at.fault.seconds, lambda: self._stops.release(at.number))
        elif at.number not in self._held:
            self._stops.release(at.number)

    @property
    def is_holding(self) -> bool:
        """True if a step is delayed until another driver reaches its step."""
        return bool(self._held)

    def release(self) -> None:
        """Release the steps that are delayed until another driver reaches its step."""
        while self._held:
            self._stops.release(self._held.pop())

    def _nothing(self, _: Reached) -> None:
        pass

    def _exceed_timeout(self, _: Reached) -> None:
        pass

    def _raise(self, at: Reached) -> None:
        self._stops.release(at.number, RAISE)

    def _kill_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGKILL)

    def _pause_process(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._supervisor.call_later(at.fault.seconds, lambda: _signal(at.process, signal.SIGCONT))

    def _kill_driver(self, _: Reached) -> None:
        self._supervisor.kill(self._supervisor.running[0])

    def _kill_jvm(self, _: Reached) -> None:
        driver = self._supervisor.running[0]
        self._supervisor.forget(driver)
        driver.kill_without_workers()

    def _pause_driver(self, at: Reached) -> None:
        first = self._supervisor.running[0]
        first.pause()
        self._stops.release(at.number)
        self._supervisor.start()
        # By then, the second driver is running or has finished.
        self._supervisor.call_later(2.0 + 4 * at.fault.seconds, first.resume)

    def _second_driver(self, _: Reached) -> None:
        self._supervisor.start()

    def _stop_query(self, _: Reached) -> None:
        self._supervisor.running[0].send({"stop": True})

    def _kill_executor(self, at: Reached) -> None:
        executors = self._supervisor.running[0].executors()
        mine = [
            executor
            for executor in executors
            if at.process in {child.pid for child in executor.children(True)}
        ]
        for victim in (mine or executors)[:1]:
            _signal(victim.pid, signal.SIGKILL)

    def _kill_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.kill()
        self._supervisor.call_later(max(at.fault.seconds, self._cluster.least_down_s), node.start)

    def _pause_broker(self, at: Reached) -> None:
        node = self._cluster.node(at.fault.node)
        node.pause()
        self._supervisor.call_later(at.fault.seconds, node.resume)

    def _cut_network(self, at: Reached) -> None:
        proxy = self._cluster.proxies[at.fault.node]
        proxy.cut()
        self._supervisor.call_later(at.fault.seconds, proxy.heal)

    def _move_coordinators(self, at: Reached) -> None:
        admin = self._cluster.admin
        self._stops.release(at.number)
        for partition, leader in admin.leaders(_TRANSACTIONS).items():
            admin.move_leader(_TRANSACTIONS, partition, leader % len(self._cluster.nodes) + 1)

    def _sleep(self, at: Reached) -> None:
        _signal(at.process, signal.SIGSTOP)
        self._paused.append(at.process)

    def _wake_late(self, at: Reached) -> None:
        self._sleep(at)
        psutil.Process(at.process).parent().kill()

    def _wake(self, _: Reached) -> None:
        for process in self._paused:
            _signal(process, signal.SIGCONT)

    def _start_second(self, at: Reached) -> None:
        self._supervisor.start()
        self._held.append(at.number)

    def _release_first(self, _: Reached) -> None:
        self.release()

    def _fence_tasks(self, at: Reached) -> None:
        """Fence all tasks of the batch whose transactional ids are in the trace."""
        topic, batch = re.escape(self._supervisor.spec["topic"]), at.fault.stop.batch
        pattern = rf"{topic}/stream/[^/ ]+/{batch}/[^ \n]+"
        for name in sorted(
            set(re.findall(pattern, (self._folder / "trace.log").read_text(encoding="utf-8")))
        ):
            fence_producer(self._cluster.bootstrap_servers, name)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
