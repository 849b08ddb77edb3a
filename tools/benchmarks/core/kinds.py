"""What keys and headers cost the core: the same values without, with keys, and with both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core.contestants import EVENTS, SINK
from tools.benchmarks.core.job import Job, Kind
from tools.benchmarks.payload import lines_file
from tools.benchmarks.sample import Series, find
from tools.benchmarks.tables import Table, compared, notes
from tools.benchmarks.targets import Target, at_most
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.core.measuring import CorePlan
    from tools.benchmarks.sample import Sample

MOST = 2.0
"""Times the CPU of plain records that keyed ones with headers may take."""
_NAMES = {Kind.PLAIN: "null keys", Kind.KEYED: "keyed", Kind.HEADERS: "keyed, two headers"}


@dataclass(frozen=True, slots=True)
class KindFigures:
    """A series for each kind."""

    series: Sequence[Series]

    def tables(self) -> list[Table]:
        """One; ratios are to plain records."""
        plain = find(self.series, _NAMES[Kind.PLAIN])
        rows = [compared(one, plain, digits=3) for one in self.series]
        columns = ("records", "codec", "M rec/s", "min - max", "to plain", "CPU us/rec", "to plain")
        title = "Keys and headers: the core, 131-byte JSON events, 8 partitions"
        return [
            Table(title, columns, rows, notes("Keys and headers are encoded too.", self.series))
        ]

    def targets(self) -> list[Target]:
        """Keyed with headers against plain."""
        plain, full = (find(self.series, _NAMES[each]) for each in (Kind.PLAIN, Kind.HEADERS))
        ratio, figure = None, ""
        if plain and full:
            ratio = full.cpu_us / plain.cpu_us
            figure = f"{ratio:.2f}x ({full.cpu_us:.3f} to {plain.cpu_us:.3f} us)"
        return [at_most("core, keyed with headers: CPU to plain", MOST, "x", ratio, figure)]

    def to_dict(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [one.to_dict() for one in self.series]


def measure(bootstrap_servers: str, plan: CorePlan, tell: Callable[[str], None]) -> KindFigures:
    """All rounds, the kinds in turns."""
    series = {kind: Series(name, "none") for kind, name in _NAMES.items()}
    for number in range(plan.rounds):
        for kind, one in series.items():
            tell(f"keys and headers, round {number + 1} of {plan.rounds}: {one.contestant}")
            one.add(partial(_run, kind, plan, bootstrap_servers), tell)
    return KindFigures(list(series.values()))


def _run(kind: Kind, plan: CorePlan, bootstrap_servers: str) -> Sample:
    with fresh_topic(bootstrap_servers, plan.warmup + plan.records) as topic:
        job = Job(
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            payload=lines_file(EVENTS),
            warmup=plan.warmup,
            records=plan.records,
            options=SINK.options,
            kind=kind,
        )
        return SINK.run(job)
