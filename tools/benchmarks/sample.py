"""What one run of one contestant measured, and several runs of it taken together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_T = TypeVar("_T")


class BenchmarkError(RuntimeError):
    """A run failed, or left other records than it should; the run goes on with the others."""


def attempt(run: Callable[[], _T], failures: list[str], tell: Callable[[str], None]) -> _T | None:
    """What `run` returns; where it fails, None, and the reason is told and kept."""
    try:
        return run()
    except BenchmarkError as error:
        failures.append(str(error))
        tell(f"FAILED: {error}")
        return None


def failure_notes(failures: Iterable[tuple[str, list[str]]]) -> list[str]:
    """A line for each contestant that failed: how often, and the end of what it said first."""
    return [
        f"{name} failed {len(texts)} times: {texts[0].strip().splitlines()[-1][:200]}."
        for name, texts in failures
        if texts
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run: wall and CPU seconds of the measured phase alone, after a warm-up.

    `cpu_s` is user and system time of every process and thread of the contestant; `peak_mib` the
    most memory its process has held; `startup_cpu_s` what it spent outside the measured phase.
    In Spark `peak_mib` is that of the largest Python worker, `workers_peak_mib` the sum of all.
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
        """Acknowledged records a second."""
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per record."""
        return self.cpu_s / self.records * 1e6


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of one contestant with one codec, in the order in which they ran.

    `failures` says why runs brought no sample; the figures need one sample at least.
    """

    contestant: str
    codec: str
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, run: Callable[[], Sample], tell: Callable[[str], None]) -> None:
        """Keep the sample of a run, or the reason why there is none."""
        sample = attempt(run, self.failures, tell)
        if sample is not None:
            self.samples.append(sample)

    @property
    def rate(self) -> float:
        """Median records a second."""
        return median(sample.rate for sample in self.samples)

    @property
    def slowest(self) -> float:
        """Records a second of the slowest run."""
        return min(sample.rate for sample in self.samples)

    @property
    def fastest(self) -> float:
        """Records a second of the fastest run."""
        return max(sample.rate for sample in self.samples)

    @property
    def cpu_us(self) -> float:
        """Median CPU microseconds per record."""
        return median(sample.cpu_us for sample in self.samples)

    @property
    def peak_mib(self) -> float:
        """Most memory of any run."""
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
        """Most memory of all Python workers in any run."""
        return max(sample.workers_peak_mib for sample in self.samples)

    @property
    def jvm_peak_mib(self) -> float:
        """Most memory of the JVM in any run."""
        return max(sample.jvm_peak_mib for sample in self.samples)

    @property
    def startup_cpu_s(self) -> float:
        """Median CPU seconds outside the measured phase."""
        return median(sample.startup_cpu_s for sample in self.samples)

    def to_dict(self) -> dict[str, Any]:
        """Samples and medians, for JSON."""
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
    """The series of a contestant with a codec, if it was measured."""
    matching = (one for one in series if (one.contestant, one.codec) == (contestant, codec))
    return next((one for one in matching if one.samples), None)
