"""What a Spark process has used: its driver, the JVM and the Python workers apart.

The tree is driver (this process) - JVM - pyspark.daemon - workers. Peaks are VmHWM, which writing 5
to /proc/PID/clear_refs sets back (proc_pid_clear_refs(5)); so nothing samples while a write runs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tools.benchmarks.processes import peak_mib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds, user and system, of each process that lives.

    `reaped` is what the Python processes' ended children had used when they were waited for.
    """

    driver: float
    jvm: float
    python: Mapping[int, float]
    reaped: float

    def since(self, start: Cpu) -> dict[str, float]:
        """What was used since, as fields of a Sample.

        Spark ends idle workers at any time: what such a one had used before is not of this time.
        """
        gone = sum(used for pid, used in start.python.items() if pid not in self.python)
        workers = sum(used - start.python.get(pid, 0.0) for pid, used in self.python.items())
        workers += max(0.0, self.reaped - start.reaped - gone)
        driver, jvm = self.driver - start.driver, self.jvm - start.jvm
        return {"cpu_s": driver + jvm + workers, "jvm_cpu_s": jvm, "workers_cpu_s": workers}


def cpu() -> Cpu:
    """Of this process and all below it."""
    jvm = reaped = 0.0
    python: dict[int, float] = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            reaped += times.children_user + times.children_system
            if _is_jvm(process):
                jvm += times.user + times.system
            else:
                python[process.pid] = times.user + times.system
    own = psutil.Process().cpu_times()
    return Cpu(own.user + own.system, jvm, python, reaped)


def reset_peaks() -> None:
    """Let the peaks begin anew."""
    for process in (*_jvms(), *_workers()):
        with suppress(OSError), open(f"/proc/{process.pid}/clear_refs", "w") as file:  # noqa: PTH123
            file.write(_RESET_PEAK)


def peaks() -> dict[str, float]:
    """Peak RSS in MiB since `reset_peaks`, as fields of a Sample."""
    workers = _peaks(_workers())
    return {
        "peak_mib": max(workers, default=0.0),
        "workers_peak_mib": sum(workers),
        "jvm_peak_mib": sum(_peaks(_jvms())),
    }


def _peaks(processes: Iterator[psutil.Process]) -> list[float]:
    found: list[float] = []
    for process in processes:
        with suppress(OSError, StopIteration):  # It has ended, or is ending and holds none.
            found.append(peak_mib(process.pid))
    return found


def _jvms() -> Iterator[psutil.Process]:
    return (each for each in psutil.Process().children() if _is_jvm(each))


def _workers() -> Iterator[psutil.Process]:
    """The children of the daemons, which are the children of a JVM."""
    for jvm in _jvms():
        for daemon in jvm.children():
            with suppress(psutil.NoSuchProcess):
                yield from daemon.children()


def _is_jvm(process: psutil.Process) -> bool:
    return bool(process.name() == "java")
