"""What was measured of whole Spark writes: tables and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.benchmarks.sample import find
from tools.benchmarks.spark.contestants import CODECS, JVM, OURS, SINK_41, keyed
from tools.benchmarks.tables import Table, compared, notes
from tools.benchmarks.targets import Target, at_least, at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.benchmarks.sample import Series

RATE = {"none": 1.4, "lz4": 1.4, "zstd": 2.0}
"""Of the tuned JVM sink's rate."""
CPU_SHARE = 0.75
"""Of the tuned JVM sink's CPU a record."""
PYTHON_US, PYTHON_US_41 = 0.2, 0.25
"""CPU of the Python workers a record, without compression; on pyspark 4.1."""
WORKER_MIB = 200 + 64
"""Peak RSS of a worker: 200 MB, and the default buffer.memory."""
_TITLE = "Spark: 131-byte JSON events from Parquet, local[1], warm session"
_ABOUT = (
    "CPU is that of the driver, the JVM and the Python workers together, reading included; ratios "
    "are to the tuned JVM sink with the same codec and kind of records. MiB are the peak RSS "
    "during a write: of the largest Python worker, of all of them (idle ones too), and of the JVM, "
    "which keeps what earlier writes needed."
)


@dataclass(frozen=True, slots=True)
class SparkFigures:
    """The series of each contestant and codec."""

    series: Sequence[Series]

    def tables(self) -> list[Table]:
        """One."""
        return [spark_table(self.series)]

    def targets(self) -> list[Target]:
        """Against the tuned JVM sink, and what a worker may use."""
        names = {"null keys": (OURS, JVM), "keyed": (keyed(OURS), keyed(JVM))}
        targets: list[Target] = []
        for kind, (ours, theirs) in names.items():
            for codec in CODECS:
                what = f"Spark, {kind}, {codec}"
                found, reference = find(self.series, ours, codec), find(self.series, theirs, codec)
                targets += _against_jvm(what, RATE[codec], found, reference)
            old = f"{SINK_41.name}{ours.removeprefix(OURS)}"
            targets.append(self._python(f"Spark, {kind}, none", ours, PYTHON_US))
            targets.append(self._python(f"Spark 4.1, {kind}, none", old, PYTHON_US_41))
        return [*targets, self._memory()]

    def to_dict(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [one.to_dict() for one in self.series]

    def _python(self, what: str, name: str, most: float) -> Target:
        found = find(self.series, name)
        cost = found.workers_cpu_us if found else None
        return at_most(f"{what}: CPU of the Python workers", most, " us/rec", cost)

    def _memory(self) -> Target:
        ours = [one for one in self.series if one.contestant in {OURS, keyed(OURS)} and one.samples]
        peak = max((one.peak_mib for one in ours), default=None)
        figure = "" if peak is None else f"{peak:.0f} MiB"
        return at_most("Spark: peak RSS of the worker", WORKER_MIB, " MiB", peak, figure)


def _against_jvm(
    what: str, rate: float, ours: Series | None, theirs: Series | None
) -> Sequence[Target]:
    faster, cheaper, rates, costs = None, None, "", ""
    if ours and theirs:
        faster, cheaper = ours.rate / theirs.rate, ours.cpu_us / theirs.cpu_us
        rates = f"{faster:.2f}x ({ours.rate / 1e6:.2f} to {theirs.rate / 1e6:.2f} M rec/s)"
        costs = f"{cheaper:.2f}x ({ours.cpu_us:.2f} to {theirs.cpu_us:.2f} us)"
    return (
        at_least(f"{what}: rate to the tuned JVM sink's", rate, "x", faster, rates),
        at_most(f"{what}: CPU to the tuned JVM sink's", CPU_SHARE, "x", cheaper, costs),
    )


def spark_table(series: Sequence[Series], title: str = _TITLE, about: str = _ABOUT) -> Table:
    """Rates, CPU by process, memory; ratios are to Spark's tuned sink with the same codec."""
    rows = [
        (*compared(one, find(series, _reference(one), one.codec), digits=2), *_split(one))
        for one in series
    ]
    columns = ("sink", "codec", "M rec/s", "min - max", "to JVM sink", "CPU us/rec", "to JVM sink")
    more = ("of that JVM", "Python", "worker MiB", "workers MiB", "JVM MiB")
    return Table(title, (*columns, *more), rows, notes(about, series))


def _reference(one: Series) -> str:
    return keyed(JVM) if one.contestant.endswith(keyed("")) else JVM


def _split(one: Series) -> tuple[str, ...]:
    """CPU of the JVM and of the Python workers, and memory of both."""
    if not one.samples:
        return ("-",) * 5
    return (
        f"{one.jvm_cpu_us:.2f}",
        f"{one.workers_cpu_us:.2f}",
        *(f"{each:.0f}" if each else "-" for each in (one.peak_mib, one.workers_peak_mib)),
        f"{one.jvm_peak_mib:.0f}",
    )
