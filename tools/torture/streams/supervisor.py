"""Supervises the Spark drivers of a run, and injects the faults at the stops of the plan."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from tools.support.jars import ROOT
from tools.support.waiting import poll
from tools.torture.cluster import ProxiedCluster
from tools.torture.streams.check import TopicWatch, fence_producer
from tools.torture.streams.injection.hooks import RAISE, RUN, at_file, go_file, trace, trace_size
from tools.torture.streams.plan import Fault, Plan
from tools.torture.streams.scenarios import LOG, SHARED, Action, Profile, Sink, Step, Stop

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
_TWO_DRIVERS = frozenset({Action.PAUSE_DRIVER, Action.SECOND_DRIVER, Action.START_SECOND})
TORN = "TornTransactionError"
OTHER_QUERY = "another query"
_POLL_S = 0.01
_SETTLE_S = 25.0
_MAX_S = 900.0
_REFUSED_S = 120.0
_MAX_STARTS = 12
_INJECTION = Path(__file__).with_name("injection")
_READY_S = 180
_EXECUTOR = "CoarseGrainedExecutorBackend"


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
        """Fence all tasks of the batch whose transactional IDs are in the trace."""
        topic, batch = re.escape(self._supervisor.spec["topic"]), at.fault.stop.batch
        pattern = rf"{topic}/stream/[^/ ]+/{batch}/[^ \n]+"
        for name in sorted(
            set(re.findall(pattern, (self._folder / "trace.log").read_text(encoding="utf-8")))
        ):
            fence_producer(self._cluster.bootstrap_servers, name)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


@dataclass(frozen=True, slots=True)
class Reached:
    """A stop that was reached. `process` is the ID of the waiting process, or 0 if unknown."""

    fault: Fault
    number: int
    process: int


class Stops:
    """The stops of a run; `topic` is also the prefix of the transactional IDs."""

    def __init__(self, cluster: ProxiedCluster, plan: Plan, folder: Path, topic: str) -> None:
        self._plan = plan
        self._folder = folder
        self._end_txns = cluster.end_txns
        self._waiting = dict(enumerate(plan.faults))
        self._watch = TopicWatch(cluster.bootstrap_servers, topic, plan.source.partitions)
        self._arm(re.escape(topic))
        stops = [asdict(fault.stop) for fault in plan.faults]
        (folder / "steps.json").write_text(json.dumps(stops), encoding="utf-8")

    @property
    def waiting(self) -> list[Fault]:
        """The faults whose steps have not been reached."""
        return list(self._waiting.values())

    @property
    def missed(self) -> bool:
        """True if the step of a fault that is not optional was not reached."""
        return any(not fault.optional for fault in self.waiting)

    def take_reached(self) -> Iterator[Reached]:
        """Yield each fault once, after its step is reached."""
        for number, fault in list(self._waiting.items()):
            process = self._who_is_at(number, fault)
            if process is not None:
                del self._waiting[number]
                yield Reached(fault, number, process)

    def release(self, number: int, word: str = "go") -> None:
        """Release the process at the stop of a fault, or make its step fail (`word`)."""
        if self._plan.faults[number].stop.step is Step.END_TXN:
            self._end_txns.released.set()
        path = go_file(self._folder, number)
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_text(word, encoding="utf-8")
            part.rename(path)

    def close(self) -> None:
        """Release all processes."""
        for number in range(len(self._plan.faults)):
            self.release(number)
        self._watch.close()

    def _who_is_at(self, number: int, fault: Fault) -> int | None:
        """Return the ID of the process at the step (0 if unknown), or None if it is not reached."""
        if fault.stop.step in LOG:
            return 0 if self._watch.count() >= self._records_at(fault) else None
        if fault.stop.step is Step.END_TXN:
            return 0 if self._end_txns.reached.is_set() else None
        at = at_file(self._folder, number)
        return int(at.read_text(encoding="utf-8")) if at.exists() else None

    def _arm(self, prefix: str) -> None:
        """Make the gates delay the commit at which a fault occurs."""
        self._end_txns.arm("", 0)
        for fault in self._plan.faults:
            if fault.stop.step is Step.END_TXN:
                pattern, occurrence = end_txn_of(fault.stop, self._plan.sink)
                self._end_txns.arm(prefix + pattern, occurrence)

    def _records_at(self, fault: Fault) -> int:
        source = self._plan.source
        numbers = source.numbers_of(fault.stop.batch or 0)
        full = fault.stop.step is Step.LOG_FULL
        return source.good_before(numbers.stop if full else numbers.start + len(numbers) // 2)


def end_txn_of(stop: Stop, sink: Sink) -> tuple[str, int]:
    """Return the pattern of transactional IDs (after the prefix), and which match is the stop.

    The shared transactions of all batches have the same ID and are distinguished by their order.
    """
    batch = stop.batch
    if sink in SHARED:
        return ("/batch/[^/]+$", 1) if batch is None else ("/stream$", batch + 1)
    of_task = "/batch/[^/]+/" if batch is None else rf"/stream/[^/]+/{batch}/"
    return of_task, stop.hit


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


class Driver:
    """A driver and its child processes."""

    def __init__(self, profile: Profile, folder: Path) -> None:
        """Start a driver, whose files are in a new `folder` in the folder of the run."""
        self.log = folder / "driver.log"
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "tools.torture.streams.driver_child"]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{_INJECTION}",
            RUN: str(folder.parent),
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, json.dumps(asdict(profile)), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=environment,
                text=True,
                start_new_session=True,
                encoding="utf-8",
            )
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until the driver accepts commands.

        Raises:
            TimeoutError: the driver did not start in time.
        """
        if not poll(lambda: not self.alive or self.next_message(), _READY_S) or not self.alive:
            raise TimeoutError(
                f"the driver did not start:\n{self.log.read_text(encoding='utf-8')[-3000:]}"
            )

    def send(self, command: dict[str, Any]) -> None:
        """Send a command: `start` runs a stream or a job to completion; `stop` stops the query."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()

    def next_message(self) -> dict[str, Any] | None:
        """Return the next message ("ready", "ended", "failed" or "stopped"), or None."""
        with suppress(queue.Empty):
            return self._messages.get_nowait()
        return None

    def kill(self) -> None:
        """Send SIGKILL to all processes of the driver."""
        processes = self._processes()
        _signal_all(processes, signal.SIGKILL)
        self._process.wait()
        psutil.wait_procs(processes, timeout=10)

    def kill_without_workers(self) -> None:
        """Send SIGKILL to the driver and its JVM, but not to the Python workers."""
        others = [
            process for process in self._processes() if "pyspark.daemon" not in _command(process)
        ]
        _signal_all(others, signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """Send SIGSTOP to all processes of the driver."""
        _signal_all(self._processes(), signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT to all processes of the driver."""
        _signal_all(self._processes(), signal.SIGCONT)

    def executors(self) -> list[psutil.Process]:
        """Return the JVM processes of the executors."""
        return [process for process in self._processes() if _EXECUTOR in _command(process)]

    def _processes(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self._process.pid)
            return [own, *own.children(recursive=True)]
        return []

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@ "):
                self._messages.put(json.loads(line[2:]))


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
