"""What one run of one contestant measured, and several runs of it taken together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run: wall and CPU seconds of the measured phase alone, after a warm-up.

    `cpu_s` is user and system time of every process and thread of the contestant; `peak_mib` the
    most memory its process has held; `startup_cpu_s` what it spent outside the measured phase.
    """

    records: int
    seconds: float
    cpu_s: float
    peak_mib: float = 0.0
    startup_cpu_s: float = 0.0

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
    """The runs of one contestant with one codec, in the order in which they ran."""

    contestant: str
    codec: str
    samples: list[Sample] = field(default_factory=list)

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
    def startup_cpu_s(self) -> float:
        """Median CPU seconds outside the measured phase."""
        return median(sample.startup_cpu_s for sample in self.samples)

    def to_dict(self) -> dict[str, Any]:
        """Samples and medians, for JSON."""
        return {
            "contestant": self.contestant,
            "codec": self.codec,
            "median_records_per_s": round(self.rate),
            "median_cpu_us_per_record": round(self.cpu_us, 4),
            "samples": [asdict(sample) for sample in self.samples],
        }


def find(series: list[Series], contestant: str, codec: str = "none") -> Series | None:
    """The series of a contestant with a codec, if it was measured."""
    matching = (one for one in series if (one.contestant, one.codec) == (contestant, codec))
    return next((one for one in matching if one.samples), None)
