"""Samples, targets, tables, and the results of a run with a description of its machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
import traceback
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from rich import box
from rich.table import Table as RichTable

from tools.checks.needs import find_java
from tools.support.jars import KAFKA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tools.benchmarks.suite import Figures, Part, Workbench


_NOT_MEASURED = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target. `met` is None if there is no measurement."""

    what: str
    wanted: str
    figure: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """The result in one or two words."""
        return {True: "yes", False: "NO", None: "not measured"}[self.met]


def at_least(
    what: str, wanted: float, unit: str, measured: float | None, figure: str = ""
) -> Target:
    """Return a target with a lower bound.

    `unit` follows the number. If set, `figure` replaces the measured number and its unit.
    """
    return Target(
        what=what,
        wanted=f">= {wanted:g}{unit}",
        figure=_figure(measured, unit, figure),
        met=None if measured is None else measured >= wanted,
    )


def at_most(
    what: str, wanted: float, unit: str, measured: float | None, figure: str = ""
) -> Target:
    """Return a target with an upper bound. The arguments are the same as for `at_least`."""
    return Target(
        what=what,
        wanted=f"<= {wanted:g}{unit}",
        figure=_figure(measured, unit, figure),
        met=None if measured is None else measured <= wanted,
    )


def _figure(measured: float | None, unit: str, figure: str) -> str:
    return _NOT_MEASURED if measured is None else figure or f"{measured:.2f}{unit}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text. The first column is left-aligned, and all other columns contain numbers.

    `notes` follow the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: str = ""

    def rich(self) -> RichTable:
        """Return the table for a terminal."""
        table = RichTable(title=self.title, caption=self.notes or None, box=box.SIMPLE)
        table.title_justify = table.caption_justify = "left"
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [f"**{self.title}**", "", _line(self.columns)]
        lines.append("|---|" + "---:|" * (len(self.columns) - 1))
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, *(["", self.notes] if self.notes else [])])


def compared(one: Series, reference: Series | None, digits: int) -> tuple[str, ...]:
    """Return a table row: contestant and codec, and the rate and CPU use, both with a ratio."""
    if not one.samples:
        return (one.contestant, one.codec, "failed", *["-"] * 4)
    return (
        one.contestant,
        one.codec,
        f"{one.rate / 1e6:.2f}",
        spread(one),
        times(one.rate, reference.rate if reference else None),
        f"{one.cpu_us:.{digits}f}",
        times(one.cpu_us, reference.cpu_us if reference else None),
    )


def spread(one: Series) -> str:
    """Return the rates of the slowest and fastest run, in millions of records per second."""
    return f"{one.slowest / 1e6:.2f} - {one.fastest / 1e6:.2f}"


def times(value: float, reference: float | None) -> str:
    """Return a ratio, or "-" if there is no reference."""
    return "-" if reference is None else f"{value / reference:.2f}x"


def target_table(targets: Sequence[Target]) -> Table:
    """Return a table of targets and measurements, followed by the missed targets."""
    rows = [(target.what, target.wanted, target.figure, target.verdict) for target in targets]
    return Table("Targets", ("target", "wanted", "measured", "met"), rows, summary(targets))


def failure_table(failures: Mapping[str, str]) -> list[Table]:
    """Return a table of failed parts with the last line of each traceback, or no table."""
    rows = [(part, text.strip().splitlines()[-1][:200]) for part, text in failures.items()]
    return [Table("Parts that failed", ("part", "why"), rows)] if rows else []


def summary(targets: Sequence[Target]) -> str:
    """Return one or two sentences on how many targets were met and which were missed."""
    judged = [target for target in targets if target.met is not None]
    missed = [target for target in judged if not target.met]
    met = f"{len(judged) - len(missed)} of {len(judged)} targets are met."
    names = "; ".join(f"{each.what} ({each.figure})" for each in missed)
    return f"{met} Missed: {names}." if missed else met


def notes(about: str, series: Sequence[Series]) -> str:
    """Return the notes below a table: remarks and failed runs."""
    failed = failure_notes((f"{one.contestant}, {one.codec},", one.failures) for one in series)
    return " ".join([about, *failed])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


_T = TypeVar("_T")


class BenchmarkError(RuntimeError):
    """A run failed or wrote an unexpected number of records. The other runs continue."""


def attempt(run: Callable[[], _T], failures: list[str], log: Callable[[str], None]) -> _T | None:
    """Return the result of `run`. If it fails, log and store the reason, and return None."""
    try:
        return run()
    except BenchmarkError as error:
        failures.append(str(error))
        log(f"FAILED: {error}")
        return None


def failure_notes(failures: Iterable[tuple[str, list[str]]]) -> list[str]:
    """Return a line for each failed contestant: the number of failures and the first reason."""
    return [
        f"{name} failed {len(texts)} times: {texts[0].strip().splitlines()[-1][:200]}."
        for name, texts in failures
        if texts
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Measurements of one run. Times cover only the measured phase, which follows a warm-up.

    `cpu_s` is the user and system time of all processes and threads of the contestant. `peak_mib`
    is the peak memory of its process. In Spark, `peak_mib` is the peak of the largest Python
    worker, and `workers_peak_mib` is the sum of all workers. `startup_cpu_s` is the only exception:
    it is the CPU time outside the measured phase.
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

    @property
    def rate(self) -> float:
        """Acknowledged records per second."""
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per record."""
        return self.cpu_s / self.records * 1e6


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of one contestant with one codec, in execution order.

    `failures` contains the reasons for failed runs. The figures require at least one sample.
    """

    contestant: str
    codec: str
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, run: Callable[[], Sample], log: Callable[[str], None]) -> None:
        """Add the sample of a run, or the reason for its failure."""
        sample = attempt(run, self.failures, log)
        if sample is not None:
            self.samples.append(sample)

    @property
    def rate(self) -> float:
        """Median records per second."""
        return median(sample.rate for sample in self.samples)

    @property
    def slowest(self) -> float:
        """Records per second of the slowest run."""
        return min(sample.rate for sample in self.samples)

    @property
    def fastest(self) -> float:
        """Records per second of the fastest run."""
        return max(sample.rate for sample in self.samples)

    @property
    def cpu_us(self) -> float:
        """Median CPU microseconds per record."""
        return median(sample.cpu_us for sample in self.samples)

    @property
    def peak_mib(self) -> float:
        """Highest peak memory of any run, in MiB."""
        return max(sample.peak_mib for sample in self.samples)

    @property
    def jvm_cpu_us(self) -> float:
        """Median CPU microseconds per record of Spark's JVM."""
        return median(sample.jvm_cpu_s / sample.records * 1e6 for sample in self.samples)

    @property
    def workers_cpu_us(self) -> float:
        """Median CPU microseconds per record of Spark's Python workers."""
        return median(sample.workers_cpu_s / sample.records * 1e6 for sample in self.samples)

    @property
    def workers_peak_mib(self) -> float:
        """Highest total memory of the Python workers in any run, in MiB."""
        return max(sample.workers_peak_mib for sample in self.samples)

    @property
    def jvm_peak_mib(self) -> float:
        """Highest memory of the JVM in any run, in MiB."""
        return max(sample.jvm_peak_mib for sample in self.samples)

    @property
    def startup_cpu_s(self) -> float:
        """Median CPU seconds outside the measured phase."""
        return median(sample.startup_cpu_s for sample in self.samples)

    def to_dict(self) -> dict[str, Any]:
        """Return samples and medians as a JSON object."""
        return {
            "contestant": self.contestant,
            "codec": self.codec,
            "median_records_per_s": round(self.rate) if self.samples else None,
            "median_cpu_us_per_record": round(self.cpu_us, 4) if self.samples else None,
            **(self._spread() if self.samples else {}),
            "samples": [asdict(sample) for sample in self.samples],
            "failures": self.failures,
        }

    def _spread(self) -> dict[str, float]:
        return {
            "least_records_per_s": round(self.slowest),
            "most_records_per_s": round(self.fastest),
            "median_jvm_cpu_us_per_record": round(self.jvm_cpu_us, 4),
            "median_workers_cpu_us_per_record": round(self.workers_cpu_us, 4),
            "most_peak_mib": round(self.peak_mib, 1),
        }


def find(series: Sequence[Series], contestant: str, codec: str = "none") -> Series | None:
    """Return the series of a contestant with a codec, or None if it was not measured."""
    matching = (one for one in series if (one.contestant, one.codec) == (contestant, codec))
    return next((one for one in matching if one.samples), None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one part: its figures or a traceback, and its duration."""

    part: str
    figures: Figures | None
    failure: str
    seconds: float


@dataclass(slots=True)
class Results:
    """All outcomes so far."""

    machine: dict[str, str]
    outcomes: list[Outcome] = field(default_factory=list)

    def failed(self) -> list[Outcome]:
        """Return the names of failed parts."""
        return [each for each in self.outcomes if each.figures is None]

    def targets(self) -> list[Target]:
        """Return the targets of all measured parts."""
        return [one for each in self._measured() for one in each.targets()]

    def tables(self) -> list[Table]:
        """Return the tables of all parts, the failures, and the targets."""
        tables = [table for each in self._measured() for table in each.tables()]
        failures = {each.part: each.failure for each in self.failed()}
        return [*tables, *failure_table(failures), target_table(self.targets())]

    def to_dict(self) -> dict[str, Any]:
        """Return the results as a JSON object with one object per section."""
        measured = {each.part: each.figures for each in self.outcomes if each.figures}
        return {
            "machines": {each.part: one_line(self.machine) for each in self.outcomes},
            "seconds": {each.part: round(each.seconds, 1) for each in self.outcomes},
            "failures": {each.part: each.failure for each in self.failed()},
            "parts": {part: each.to_dict() for part, each in measured.items()},
            "tables": {
                part: [asdict(one) for one in each.tables()] for part, each in measured.items()
            },
            "targets": {
                part: [asdict(one) for one in each.targets()] for part, each in measured.items()
            },
        }

    def _measured(self) -> Iterable[Figures]:
        return (each.figures for each in self.outcomes if each.figures is not None)


def measure(
    parts: Iterable[Part], bench: Workbench, results: Results, keep: Callable[[Results], None]
) -> None:
    """Run the parts in order. After each part, call `keep` with the results.

    Failures of a part are recorded in the results, and the next part gets a new Kafka.
    """
    try:
        for part in parts:
            results.outcomes.append(_outcome(part, bench))
            keep(results)
    finally:
        bench.stop()


def _outcome(part: Part, bench: Workbench) -> Outcome:
    started = time.monotonic()
    figures, failure = None, ""
    try:
        figures = part.measure(bench)
    except Exception:  # noqa: BLE001  # Any error: it must not discard hours of other results.
        failure = traceback.format_exc()
        bench.log(f"FAILED: {part.name}\n{failure}")
        bench.stop()
    return Outcome(part.name, figures, failure, time.monotonic() - started)


_PACKAGES = ("pyspark", "pyarrow", "numpy", "confluent-kafka")
_PRODUCT = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def describe() -> dict[str, str]:
    """Return cores, CPU, memory, and the versions of the software under test."""
    return {
        "cores": str(os.cpu_count()),
        "cpu": _cpu(),
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
        "kafka": KAFKA.name.removeprefix("kafka-"),
        **{name: version(name) for name in _PACKAGES},
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def one_line(facts: dict[str, str]) -> str:
    """Return the facts as one line of text."""
    first = f"{facts['cores']} cores, {facts['cpu']}, {facts['memory']}"
    rest = (f"{name} {facts[name]}" for name in ("kafka", "java", "python", *_PACKAGES))
    return f"{first}; {', '.join(rest)}; load average before the start {facts['load']}"


def _cpu() -> str:
    found = _PRODUCT.search(Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def _java() -> str:
    java = find_java()
    if java is None:
        return "none"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', printed)
    return found.group(1) if found else "unknown"
