"""What short Arrow batches cost: 16 rows each and 10,000, beside a sink that keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tools.benchmarks.payload import events_file
from tools.benchmarks.spark import sweep
from tools.benchmarks.spark.contestants import ARROW_ROWS, NULL_SINK, SINK, SMALL_ROWS
from tools.benchmarks.spark.measuring import write
from tools.benchmarks.spark.sweep import Heat, Sweep
from tools.benchmarks.targets import Target, at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.benchmarks.sample import Sample
    from tools.benchmarks.spark.warm import WarmSpark

POINTS = (10_000, 16)
KEPT = 0.7
"""Of the share of its rate that the null Arrow sink keeps: more is not the sink's to keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowBatchesPlan:
    """Events of a write, and rounds."""

    records: int
    rounds: int


def measure(bootstrap_servers: str, plan: ArrowBatchesPlan, tell: Callable[[str], None]) -> Sweep:
    """All rounds."""
    events_file(plan.records)
    heats = [
        Heat(contestant=each, point=point, records=plan.records)
        for each in (SINK, NULL_SINK)
        for point in POINTS
    ]
    one_write = partial(_write, bootstrap_servers)
    return Sweep(
        title="Rows of an Arrow batch: 131-byte JSON events, local[1], warm session",
        axis="rows",
        about=f"{plan.records:,} events a write; the null Arrow sink is what Spark itself costs.",
        judge=judge,
        series=sweep.run(heats, one_write, bootstrap_servers, plan.rounds, tell),
    )


def _write(bootstrap_servers: str, spark: WarmSpark, heat: Heat) -> Sample:
    conf = {**SMALL_ROWS, ARROW_ROWS: str(heat.point)}
    contestant = replace(heat.contestant, conf=conf)
    return write(spark, contestant, bootstrap_servers, heat.records)


def judge(found: Sweep) -> list[Target]:
    """What the sink must keep."""
    many, few = POINTS
    ours = found.kept(SINK.name, few, many)
    bare = found.kept(NULL_SINK.name, few, many)
    share = ours / bare if ours and bare else None
    figure = f"{share:.2f}x ({ours:.2f} to {bare:.2f})" if ours and bare else ""
    what = f"Spark, {many:,} to {few:,} rows an Arrow batch: rate kept, to the null Arrow sink's"
    return [at_least(what, KEPT, "x", share, figure)]
