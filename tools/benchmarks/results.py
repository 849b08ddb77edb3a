"""What a whole run has measured, part by part, as tables, JSON and Markdown."""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tools.benchmarks.machine import one_line
from tools.benchmarks.tables import Table, target_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tools.benchmarks.part import Figures, Part, Workbench
    from tools.benchmarks.targets import Target


@dataclass(frozen=True, slots=True)
class Outcome:
    """One part: its figures, or the traceback that it ended with, and how long it took."""

    part: str
    figures: Figures | None
    failure: str
    seconds: float


@dataclass(slots=True)
class Results:
    """Everything so far."""

    machine: dict[str, str]
    outcomes: list[Outcome] = field(default_factory=list)

    def failed(self) -> list[Outcome]:
        """The parts without figures."""
        return [each for each in self.outcomes if each.figures is None]

    def targets(self) -> list[Target]:
        """Judged where the part was measured."""
        return [one for each in self._measured() for one in each.targets()]

    def tables(self) -> list[Table]:
        """Those of each part, what failed, and the targets."""
        tables = [table for each in self._measured() for table in each.tables()]
        if failed := self.failed():
            rows = [(each.part, each.failure.strip().splitlines()[-1][:200]) for each in failed]
            tables.append(Table("Parts that failed", ("part", "why"), rows))
        return [*tables, target_table(self.targets())]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "machine": self.machine,
            "parts": {each.part: each.figures.to_dict() for each in self.outcomes if each.figures},
            "failures": {each.part: each.failure for each in self.failed()},
            "seconds": {each.part: round(each.seconds, 1) for each in self.outcomes},
            "targets": [asdict(target) for target in self.targets()],
        }

    def markdown(self) -> str:
        """The tables for a page, the machine above them."""
        texts = [one_line(self.machine), *(table.markdown() for table in self.tables())]
        return "\n\n".join(texts) + "\n"

    def _measured(self) -> Iterable[Figures]:
        return (each.figures for each in self.outcomes if each.figures is not None)


def measure(
    parts: Iterable[Part], bench: Workbench, results: Results, keep: Callable[[Results], None]
) -> None:
    """Run the parts in their order, and `keep` the results after each.

    A part that fails is told of in the results, and the next one gets a Kafka of its own.
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
    except Exception:  # noqa: BLE001  # Whatever it is: hours of other figures must not go with it.
        failure = traceback.format_exc()
        bench.tell(f"FAILED: {part.name}\n{failure}")
        bench.stop()
    return Outcome(part.name, figures, failure, time.monotonic() - started)
