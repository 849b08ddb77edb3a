"""What was measured of the core: tables and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core.contestants import EVENTS, LIBRDKAFKA, OURS, RANDOM
from tools.benchmarks.sample import find
from tools.benchmarks.tables import Table, compared, notes
from tools.benchmarks.targets import Target, at_most

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.benchmarks.sample import Series

_TITLES = {
    RANDOM: "Core: 100-byte random records, acks=all, idempotent",
    EVENTS: "Core: 131-byte JSON events, acks=all, idempotent",
}
_NAMES = {RANDOM: "100-byte records", EVENTS: "JSON events"}
CPU_SHARE = {RANDOM: 0.25, EVENTS: 0.2}
"""Of librdkafka's client CPU a record that the core may use."""
_ABOUT = (
    "Medians over the rounds; start-up CPU (process start, imports, compilation, warm-up) is not "
    "in CPU us/rec."
)


@dataclass(frozen=True, slots=True)
class CoreFigures:
    """The series by payload."""

    series: Mapping[str, Sequence[Series]]

    def tables(self) -> list[Table]:
        """One for each payload."""
        return [core_table(_TITLES[payload], found) for payload, found in self.series.items()]

    def targets(self) -> list[Target]:
        """One for each payload."""
        return [core_target(payload, found) for payload, found in self.series.items()]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: [one.to_dict() for one in found] for name, found in self.series.items()}


def core_table(title: str, series: Sequence[Series]) -> Table:
    """Rates, CPU and memory; ratios are to librdkafka with the same codec."""
    rows = [
        (*compared(one, find(series, LIBRDKAFKA, one.codec), digits=3), *_cost(one))
        for one in series
    ]
    columns = ("producer", "codec", "M rec/s", "min - max", "to librdkafka", "CPU us/rec")
    more = ("to librdkafka", "peak MiB", "start-up CPU s")
    return Table(title, (*columns, *more), rows, notes(_ABOUT, series))


def core_target(payload: str, series: Sequence[Series]) -> Target:
    """Client CPU per record against librdkafka's, without compression."""
    ours, reference = find(series, OURS), find(series, LIBRDKAFKA)
    share, figure = None, ""
    if ours and reference:
        share = ours.cpu_us / reference.cpu_us
        figure = f"{share:.2f}x ({ours.cpu_us:.3f} of {reference.cpu_us:.3f} us)"
    what = f"core, {_NAMES[payload]}: client CPU to librdkafka's"
    return at_most(what, CPU_SHARE[payload], "x", share, figure)


def _cost(one: Series) -> tuple[str, str]:
    """Memory and what starting took."""
    if not one.samples:
        return ("-", "-")
    return (f"{one.peak_mib:.0f}", f"{one.startup_cpu_s:.1f}")
