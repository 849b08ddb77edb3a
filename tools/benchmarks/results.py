"""Samples and their series, contestants as processes, and the description of the machine."""

import json
import os
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa

from tools.checks.needs import find_java
from tools.support.jars import KAFKA, ROOT

Log = Callable[[str], None]
_TIMEOUT_S = 300
_PACKAGES = ("pyspark", "pyarrow", "numpy", "confluent-kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Measurements of one run. Times cover only the measured phase, which follows a warm-up.

    `cpu_s` is the user and system time of all processes and threads of the contestant. `peak_mib`
    is the peak memory of its process. In Spark, `peak_mib` is the peak of the largest Python
    worker, and `workers_peak_mib` is the sum of all workers. `startup_cpu_s` is the only exception:
    it is the CPU time outside the measured phase. Latencies are measured only at a fixed rate.
    """

    records: int
    seconds: float
    cpu_s: float
    peak_mib: float = 0.0
    startup_cpu_s: float = 0.0
    jvm_cpu_s: float = 0.0
    workers_cpu_s: float = 0.0
    workers_peak_mib: float = 0.0
    jvm_peak_mib: float = 0.0
    p50_us: int = 0
    p99_us: int = 0
    p999_us: int = 0
    max_us: int = 0

    @property
    def rate(self) -> float:
        """Acknowledged records per second."""
        return self.records / self.seconds


_MEASURED = {field.name for field in fields(Sample)}


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of one contestant with one codec, in execution order.

    `facts` distinguish series of the same contestant, such as the size of its values. The figures
    require at least one sample.
    """

    contestant: str
    codec: str = "none"
    facts: Mapping[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The contestant, its codec and the facts."""
        facts = (f"{name} {value}" for name, value in self.facts.items())
        return ", ".join((self.contestant, self.codec, *facts))

    def median(self, name: str) -> float:
        """Return the median of a field of the samples."""
        return float(median(getattr(sample, name) for sample in self.samples))

    def most(self, name: str) -> float:
        """Return the highest value of a field of the samples."""
        return float(max(getattr(sample, name) for sample in self.samples))

    @property
    def rate(self) -> float:
        """Median records per second."""
        return self.median("rate")

    @property
    def seconds(self) -> float:
        """Median duration of a run."""
        return self.median("seconds")

    @property
    def rates(self) -> tuple[float, float]:
        """Records per second of the slowest and of the fastest run."""
        return min(sample.rate for sample in self.samples), self.most("rate")

    @property
    def cpu_us(self) -> float:
        """Median CPU microseconds per record."""
        return self.us("cpu_s")

    def us(self, name: str) -> float:
        """Return the median of a field in seconds as microseconds per record."""
        return float(
            median(getattr(sample, name) / sample.records * 1e6 for sample in self.samples)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return samples and medians as a JSON object. Samples have no fields that are zero."""
        samples = [{k: v for k, v in asdict(sample).items() if v} for sample in self.samples]
        return {
            **self.facts,
            "contestant": self.contestant,
            "codec": self.codec,
            "median_records_per_s": round(self.rate),
            "least_records_per_s": round(self.rates[0]),
            "most_records_per_s": round(self.rates[1]),
            "median_cpu_us_per_record": round(self.cpu_us, 4),
            "median_jvm_cpu_us_per_record": round(self.us("jvm_cpu_s"), 4),
            "median_workers_cpu_us_per_record": round(self.us("workers_cpu_s"), 4),
            "samples": samples,
        }


def take_turns(
    what: str, rounds: int, runs: Sequence[tuple[Series, Callable[[], Sample]]], log: Log
) -> list[Series]:
    """Run all rounds and return the series.

    The contestants take turns, so that changes in the machine's load affect all of them. Odd rounds
    are in reverse order, to cancel effects of the order.
    """
    for number in range(rounds):
        for series, run in runs[:: -1 if number % 2 else 1]:
            log(f"{what}, round {number + 1} of {rounds}: {series.name}")
            series.samples.append(run())
    return [series for series, _ in runs]


def find(series: Sequence[Series], contestant: str, codec: str = "none", **facts: Any) -> Series:
    """Return the series with these names and facts."""
    return next(
        result
        for result in series
        if (result.contestant, result.codec) == (contestant, codec)
        and facts.items() <= result.facts.items()
    )


def ratio(ours: Series, theirs: Series, name: str = "rate") -> float:
    """Return the ratio of a figure of two series."""
    return float(getattr(ours, name) / getattr(theirs, name))


class ContestantError(RuntimeError):
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


def run_json(command: Sequence[str]) -> Any:
    """Return the JSON value in the last line of output. Raises like `run_contestant`."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
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
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:  # noqa: PTH123
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def describe() -> str:
    """Return cores, CPU, memory, load, and the versions of the software under test."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = {
        "kafka": KAFKA.name.removeprefix("kafka-"),
        "java": _java(),
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }
    releases = ", ".join(f"{name} {release}" for name, release in versions.items())
    load = f"load average before the start {os.getloadavg()[0]:.2f}"
    return f"{os.cpu_count()} cores, {_cpu()}, {gib:.0f} GiB; {releases}; {load}"


def _cpu() -> str:
    match = re.search(
        r"(?m)^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8")
    )
    return match.group(1) if match else platform.processor() or platform.machine()


def _java() -> str:
    command = [find_java() or "java", "-version"]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stderr
    match = re.search(r'version "([^"]+)"', printed)
    return match.group(1) if match else "unknown"
