"""What the size of values does: 10 B to 1 MB, the core beside librdkafka in C."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core.contestants import LIBRDKAFKA, OURS, present
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import values_file
from tools.benchmarks.sample import Series
from tools.benchmarks.tables import Table, notes, times
from tools.benchmarks.targets import Target, at_least
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tools.benchmarks.core.contestants import Contestant
    from tools.benchmarks.sample import Sample

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Bytes of a value."""
_LARGEST = {LIBRDKAFKA: {"message.max.bytes": "1048576"}}
"""Its own default is 1,000,000 bytes with the key and what frames a record."""
_WARM_UP_SHARE = 5
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesPlan:
    """Most records and most bytes of values of a run, and rounds."""

    records: int
    value_bytes: int
    rounds: int

    def count(self, size: int) -> int:
        """Records of a run with values of `size` bytes."""
        return min(self.records, self.value_bytes // size)


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """The series by contestant and size."""

    series: Mapping[tuple[str, int], Series]

    def rate(self, contestant: str, size: int) -> float | None:
        """Median MB of values a second, if it was measured."""
        found = self.series.get((contestant, size))
        return found.rate * size / _MB if found and found.samples else None

    def tables(self) -> list[Table]:
        """One; ratios are to librdkafka with the same size."""
        rows = [self._row(name, size, one) for (name, size), one in self.series.items()]
        columns = ("producer", "bytes", "MB/s", "min - max", "to librdkafka", "CPU us/rec")
        title = "Value sizes: random values, acks=all, idempotent"
        about = notes("MB are of values, 1,000,000 bytes each.", list(self.series.values()))
        return [Table(title, (*columns, "peak MiB"), rows, about)]

    def targets(self) -> list[Target]:
        """Never below librdkafka: judged where the core is worst."""
        shares = {
            size: ours / theirs
            for size in SIZES
            if (ours := self.rate(OURS, size)) and (theirs := self.rate(LIBRDKAFKA, size))
        }
        share, figure = None, ""
        if shares:
            worst = min(shares, key=lambda size: shares[size])
            share = shares[worst]
            figure = f"{share:.2f}x at {worst:,} B"
        what = "core, values of 10 B to 1 MB: least MB/s to librdkafka's"
        return [at_least(what, 1, "x", share, figure)]

    def to_dict(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [{"value_bytes": size, **one.to_dict()} for (_, size), one in self.series.items()]

    def _row(self, name: str, size: int, one: Series) -> tuple[str, ...]:
        rate = self.rate(name, size)
        if rate is None:
            return (name, f"{size:,}", "failed", *["-"] * 4)
        low, high = one.slowest * size / _MB, one.fastest * size / _MB
        return (
            name,
            f"{size:,}",
            f"{rate:,.0f}",
            f"{low:,.0f} - {high:,.0f}",
            times(rate, self.rate(LIBRDKAFKA, size)),
            f"{one.cpu_us:,.3g}" if one.cpu_us < 100 else f"{one.cpu_us:,.0f}",
            f"{one.peak_mib:.0f}",
        )


def measure(bootstrap_servers: str, plan: SizesPlan, tell: Callable[[str], None]) -> SizeFigures:
    """All rounds, the contestants in turns."""
    contestants = [each for each in present(tell) if each.name in {OURS, LIBRDKAFKA}]
    heats = [
        (each, size, Series(each.name, f"{size:,} B")) for size in SIZES for each in contestants
    ]
    for number in range(plan.rounds):
        for each, size, series in heats:
            tell(f"value sizes, round {number + 1} of {plan.rounds}: {each.name}, {size:,} B")
            series.add(partial(_run, each, size, plan.count(size), bootstrap_servers), tell)
    return SizeFigures({(each.name, size): series for each, size, series in heats})


def _run(contestant: Contestant, size: int, records: int, bootstrap_servers: str) -> Sample:
    warmup = records // _WARM_UP_SHARE
    with fresh_topic(bootstrap_servers, warmup + records) as topic:
        return contestant.run(
            Job(
                bootstrap_servers=bootstrap_servers,
                topic=topic,
                payload=values_file(size),
                warmup=warmup,
                records=records,
                options={**contestant.options, **_LARGEST.get(contestant.name, {})},
            )
        )
