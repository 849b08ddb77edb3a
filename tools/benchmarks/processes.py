"""Run contestants as separate processes, and read the CPU time and memory of the process trees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import psutil

from tools.benchmarks.results import BenchmarkError, Sample
from tools.support.jars import ROOT

if TYPE_CHECKING:
    import resource
    from collections.abc import Sequence


_TIMEOUT_S = 300


class ContestantError(BenchmarkError):
    """A contestant failed. The message ends with its output."""


def python(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of this source tree."""
    return [sys.executable, "-m", module, *arguments]


def run_contestant(command: Sequence[str]) -> Sample:
    """Run a process whose last line is a JSON object with the fields of a `Sample`.

    `startup_cpu_s` is the CPU time of the process and its children outside the measured phase.

    Raises:
        ContestantError: the process failed, or took over five minutes.
    """
    figures, used = run_process(command)
    measured = {name: figures[name] for name in ("records", "seconds", "cpu_s", "peak_mib")}
    total = figures.get("total_cpu_s", used.ru_utime + used.ru_stime)
    return Sample(**measured, startup_cpu_s=max(0.0, total - figures["cpu_s"]))


def run_process(command: Sequence[str]) -> tuple[dict[str, Any], resource.struct_rusage]:
    """Return the JSON object in a process's last line of output, and the resources that it used.

    Raises:
        ContestantError: the process failed, or took over five minutes.
    """
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=printed, stderr=complaints
        )
        status, used = _wait(process)
        printed.seek(0)
        complaints.seek(0)
        output, errors = printed.read().decode(), complaints.read().decode(errors="replace")
    if status:
        raise ContestantError(f"{command[:3]} ended with status {status}:\n{errors[-3000:]}")
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures, used


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    """Return the exit status and the resource usage of the process and its reaped children."""
    timer = threading.Timer(_TIMEOUT_S, process.kill)
    timer.start()
    try:
        _, status, used = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used


def tree_cpu_s(pid: int | None = None) -> float:
    """Return the CPU seconds of a process and its descendants, including reaped ones."""
    root = psutil.Process(pid)
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def peak_mib(pid: int | str = "self") -> float:
    """Return the peak memory of a process in MiB, from VmHWM."""
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
