"""Run contestants as separate processes, and read the CPU time and memory of the process trees."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import psutil
import pyarrow as pa

from tools.benchmarks.results import BenchmarkError, Sample
from tools.support.jars import ROOT

_TIMEOUT_S = 300
_MEASURED = {field.name for field in fields(Sample)}


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
    before = _children_cpu_s()
    figures = run_json(command)
    total = figures.get("total_cpu_s", _children_cpu_s() - before)
    measured = {name: value for name, value in figures.items() if name in _MEASURED}
    return Sample(**measured, startup_cpu_s=max(0.0, total - figures["cpu_s"]))


def run_json(command: Sequence[str], timeout_s: float = _TIMEOUT_S) -> Any:
    """Return the JSON value in the last line of output. Raises like `run_contestant`."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ContestantError(str(error)) from error
    if done.returncode:
        status = f"ended with status {done.returncode}"
        raise ContestantError(f"{command[:3]} {status}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def use_one_core() -> None:
    """Pin this process and Arrow to one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)


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
