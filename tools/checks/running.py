"""A shard's process: its output in a file, its time limit, and what it leaves behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tools.checks import processes
from tools.checks.outcome import Outcome, problem_of
from tools.checks.shards import ROOT
from tools.checks.tally import Tally, failed_tests, seconds_by_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.checks.shards import Shard

LIMIT_S = 3000
_TIMED_OUT = 124
_INTERRUPT_S = 10
_LAUNCHER = ROOT / "tests" / "support" / "kafka" / "launcher.py"
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_PYTEST = ("-m", "pytest", f"--rootdir={ROOT}", "-p", "no:cacheprovider")
_REPORTS = ("-o", "junit_family=xunit1", "-rfEs")


class Running:
    """A shard from its start on; everything that it starts carries its mark and ends with it.

    The kernel kills the process when the thread that made this ends.
    """

    def __init__(self, shard: Shard, folder: Path, limit_s: float = LIMIT_S) -> None:
        self.shard = shard
        self.mark = processes.new_mark()
        name = self.mark.rsplit("/", 1)[-1]
        self._output = folder / f"{name}.txt"
        self._report = folder / f"{name}.xml"
        self._started = time.monotonic()
        self._limit_s = limit_s
        self._status: int | None = None
        self._seconds = 0.0
        self._process = self._start() if shard.command or shard.tests else None

    def ended(self) -> bool:
        """True once it has ended; one that takes too long is stopped."""
        if self._status is None:
            status = 0 if self._process is None else self._process.poll()
            if status is None and time.monotonic() - self._started > self._limit_s:
                status = _TIMED_OUT
            if status is not None:
                self._end(status)
        return self._status is not None

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def wait(self, timeout_s: float) -> None:
        """Block until its process has ended, or for so long."""
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return

    def printed(self) -> str:
        """The command and its output."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def outcome(self) -> Outcome:
        """How it went; it has ended."""
        status = 1 if self._status is None else self._status
        tally = Tally.read(self._report) if self._process and self.shard.tests else Tally()
        problem = problem_of(self.shard, tally, status)
        if problem and not tally.failed:
            tally += Tally(failed=1)
        return Outcome(
            phase=self.shard.phase,
            seconds=self._seconds,
            tally=tally,
            problem=problem,
            files=seconds_by_file(self._report),
            failed_tests=failed_tests(self._report),
        )

    def _start(self) -> subprocess.Popen[bytes]:
        marked = ("-m", self.shard.phase.marked) if self.shard.phase.marked else ()
        tests = (*_PYTEST, *_REPORTS, f"--junitxml={self._report}", *marked, *self.shard.tests)
        arguments = self.shard.command or tests
        python = str(ROOT / self.shard.phase.environment / "bin" / "python")
        self._output.write_text(f"$ {shlex.join(('python', *arguments))}\n")
        launcher = (sys.executable, "-S", "-E", str(_LAUNCHER), str(os.getpid()))
        with self._output.open("ab") as output:
            return subprocess.Popen(
                (*launcher, python, *arguments),
                cwd=ROOT,
                env=_environment(self.mark),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _end(self, status: int) -> None:
        self._status = status
        self._seconds = time.monotonic() - self._started
        left = processes.stop([self.mark])
        if self._process is not None:
            self._process.wait()
        with self._output.open("a") as output:
            output.writelines(f"left running, stopped: {line}\n" for line in left)


def _environment(mark: str) -> dict[str, str]:
    """This one's with the mark; Spark starts so many Pythons that each must find bytecode."""
    own = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    return {**own, "PYTHONPATH": str(ROOT), processes.MARK: mark}


def stop_all(running: Sequence[Running]) -> None:
    """End shards with everything that they started; they may clean up, for some seconds."""
    for each in running:
        each.interrupt()
    deadline = time.monotonic() + _INTERRUPT_S
    for each in running:
        each.wait(max(deadline - time.monotonic(), 0))
    processes.stop([each.mark for each in running])
