"""What topics cost: the same events to 1 topic and to 100, named by a column of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tools.benchmarks.payload import events_file
from tools.benchmarks.spark import sweep
from tools.benchmarks.spark.contestants import FLIGHT, SINK, TUNED_JVM
from tools.benchmarks.spark.measuring import WARM_UP
from tools.benchmarks.spark.sweep import Heat, Sweep
from tools.benchmarks.targets import Target, at_least
from tools.benchmarks.topics import fresh_topics

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.benchmarks.sample import Sample
    from tools.benchmarks.spark.warm import WarmSpark

POINTS = (1, 100)
KEPT = 0.7
"""Of the rate with one topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPlan:
    """Events of a write, and rounds."""

    records: int
    rounds: int


def measure(bootstrap_servers: str, plan: TopicsPlan, tell: Callable[[str], None]) -> Sweep:
    """All rounds."""
    for size in (WARM_UP, plan.records):
        events_file(size)
    heats = [
        Heat(contestant=each, point=point, records=plan.records)
        for each in (SINK, TUNED_JVM)
        for point in POINTS
    ]
    one_write = partial(_write, bootstrap_servers)
    return Sweep(
        title="Topics: 131-byte JSON events, a topic column, local[1], warm session",
        axis="topics",
        about=f"{plan.records:,} events a write; each topic has one partition.",
        judge=judge,
        series=sweep.run(heats, one_write, bootstrap_servers, plan.rounds, tell),
    )


def _write(bootstrap_servers: str, spark: WarmSpark, heat: Heat) -> Sample:
    with fresh_topics(bootstrap_servers, WARM_UP + heat.records, heat.point) as names:
        prefix = names[0].removesuffix("0")
        column = f"concat('{prefix}', cast({FLIGHT} as int) % {heat.point})"
        contestant = replace(heat.contestant, columns={"topic": column})
        spark.order(contestant.order("", bootstrap_servers, WARM_UP))
        return spark.order(contestant.order("", bootstrap_servers, heat.records))


def judge(found: Sweep) -> list[Target]:
    """What the sink must keep."""
    one, many = POINTS
    what = f"Spark, {one} to {many} topics: share of the rate kept"
    return [at_least(what, KEPT, "x", found.kept(SINK.name, many, one))]
