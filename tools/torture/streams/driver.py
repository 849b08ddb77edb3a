"""A Spark driver of a run, and its processes."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from tools.support.jars import ROOT
from tools.support.waiting import poll
from tools.torture.streams.injection.hooks import RUN
from tools.torture.streams.scenarios import Profile

_INJECTION = Path(__file__).with_name("injection")
_READY_S = 180
_EXECUTOR = "CoarseGrainedExecutorBackend"


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
