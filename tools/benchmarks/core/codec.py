"""Codecs: what each level costs and saves, and which thread compresses best."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core import codec_cost, codec_place
from tools.benchmarks.core.codec_cost import cost_table
from tools.benchmarks.core.codec_place import codec_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.core.codec_cost import CodecCost
    from tools.benchmarks.core.measuring import CorePlan
    from tools.benchmarks.sample import Series
    from tools.benchmarks.tables import Table
    from tools.benchmarks.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecPlan:
    """Rounds of all levels, and what is sent to compare the threads."""

    cost_rounds: int
    places: CorePlan


@dataclass(frozen=True, slots=True)
class CodecFigures:
    """Levels, and threads."""

    costs: Sequence[CodecCost]
    places: Sequence[Series]

    def tables(self) -> list[Table]:
        """One for the levels, one for the threads."""
        return [cost_table(self.costs), codec_table(self.places)]

    def targets(self) -> list[Target]:
        """None."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "costs": [asdict(cost) for cost in self.costs],
            "places": [one.to_dict() for one in self.places],
        }


def measure(bootstrap_servers: str, plan: CodecPlan, tell: Callable[[str], None]) -> CodecFigures:
    """All rounds of both."""
    tell("codecs by level")
    costs = codec_cost.measure(plan.cost_rounds)
    return CodecFigures(costs, codec_place.measure(bootstrap_servers, plan.places, tell))
