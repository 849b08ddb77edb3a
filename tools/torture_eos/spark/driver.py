"""Drivers as processes of their own: started, told what to run, paused, killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tools.torture_eos.seam.reporting import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.torture_eos.plans.plan import Profile

ROOT = Path(__file__).resolve().parents[3]
_SEAM = ROOT / "tools" / "torture_eos" / "seam"
_READY_S = 180
_EXECUTOR = "CoarseGrainedExecutorBackend"


class Driver:
    """A driver process and all that it starts; `folder` is its own."""

    def __init__(self, profile: Profile, folder: Path, control: Path) -> None:
        self.profile = profile
        self.log = folder / "driver.log"
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "tools.torture_eos.spark.driver_child"]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{_SEAM}",
            CONTROL: str(control),
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
            )
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.busy = False
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Block until it takes commands.

        Raises:
            TimeoutError: it does not.
        """
        deadline = time.monotonic() + _READY_S
        while self.alive and time.monotonic() < deadline:
            if (self.heard() or {}).get("ready"):
                return
            time.sleep(0.02)
        raise TimeoutError(f"the driver does not start:\n{self.log.read_text()[-3000:]}")

    def start_stream(self, spec: dict[str, Any]) -> None:
        """Have it run a stream to its end."""
        self.busy = True
        self._tell({"start": spec})

    def stop_stream(self) -> None:
        """Have it stop the query."""
        self._tell({"stop": True})

    def heard(self) -> dict[str, Any] | None:
        """What it has said next, if anything: "ready", "ended", "failed", "stopped"."""
        with suppress(queue.Empty):
            said = self._said.get_nowait()
            self.busy = False
            return said
        return None

    def kill(self) -> None:
        """SIGKILL for all of its processes at once."""
        processes = self._processes()
        _signal(processes, signal.SIGKILL)
        self._process.wait()
        psutil.wait_procs(processes, timeout=10)

    def kill_alone(self) -> None:
        """SIGKILL for driver and JVM; the Python processes under it live until they notice."""
        _signal([one for one in self._processes() if not _is_worker(one)], signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """SIGSTOP for all of its processes."""
        _signal(self._processes(), signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        _signal(self._processes(), signal.SIGCONT)

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return [one for one in self._processes() if _EXECUTOR in _command(one)]

    def _processes(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self._process.pid)
            return [own, *own.children(recursive=True)]
        return []

    def _tell(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@ "):
                self._said.put(json.loads(line[2:]))


class Drivers:
    """Drivers that are at rest are used again by the next run of their profile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.control = folder / "control"
        self.control.mkdir(parents=True)
        self._idle: list[Driver] = []
        self._count = 0

    def take(self, profile: Profile) -> Driver:
        """One that takes commands."""
        for driver in self._idle:
            if driver.profile == profile and driver.alive:
                self._idle.remove(driver)
                return driver
        while self._idle:
            self._idle.pop().kill()
        self._count += 1
        driver = Driver(profile, self._folder / f"driver-{self._count}", self.control)
        try:
            driver.wait_ready()
        except BaseException:
            driver.kill()
            raise
        return driver

    def give_back(self, driver: Driver) -> None:
        """It is at rest."""
        self._idle.append(driver)

    def close(self) -> None:
        """Kill those at rest."""
        while self._idle:
            self._idle.pop().kill()


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _is_worker(process: psutil.Process) -> bool:
    return "pyspark.daemon" in _command(process)


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
