"""What partitions cost: the same keyed events to topics of 8, 100 and 1,000 partitions.

This sink and Spark's own, in turn. Each write is made twice, and the second one is measured: with
the first one a broker makes files and indexes of the topic's partitions, which takes it longer than
the records do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tools.benchmarks.payload import events_file
from tools.benchmarks.spark import sweep
from tools.benchmarks.spark.contestants import SINK, TUNED_JVM
from tools.benchmarks.spark.sweep import Heat, Sweep
from tools.benchmarks.targets import Target, at_least
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.benchmarks.sample import Sample
    from tools.benchmarks.spark.warm import WarmSpark

POINTS = (8, 100, 1_000)
KEPT = 0.7
"""Of the rate with the fewest partitions, with the most."""
_OURS, _JVM = SINK.keyed(), TUNED_JVM.keyed()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsPlan:
    """Events of a write, of one by the JVM sink (which takes 20 times as long), and rounds."""

    records: int
    jvm_records: int
    rounds: int


def measure(bootstrap_servers: str, plan: PartitionsPlan, tell: Callable[[str], None]) -> Sweep:
    """All rounds."""
    records = {_OURS.name: plan.records, _JVM.name: plan.jvm_records}
    heats = [
        Heat(contestant=each, point=point, records=records[each.name])
        for each in (_OURS, _JVM)
        for point in POINTS
    ]
    for size in records.values():
        events_file(size)
    one_write = partial(_write, bootstrap_servers)
    return Sweep(
        title="Partitions: keyed 131-byte JSON events, one topic, local[1], warm session",
        axis="partitions",
        about=f"{plan.records:,} events a write, {plan.jvm_records:,} by Spark's kafka.",
        judge=judge,
        series=sweep.run(heats, one_write, bootstrap_servers, plan.rounds, tell),
    )


def _write(bootstrap_servers: str, spark: WarmSpark, heat: Heat) -> Sample:
    expected = 2 * heat.records
    with fresh_topic(bootstrap_servers, expected, partitions=heat.point) as topic:
        spark.order(heat.contestant.order(topic, bootstrap_servers, heat.records))
        return spark.order(heat.contestant.order(topic, bootstrap_servers, heat.records))


def judge(found: Sweep) -> list[Target]:
    """What the sink must keep."""
    least, most = POINTS[0], POINTS[-1]
    what = f"Spark, {least:,} to {most:,} partitions: share of the rate kept"
    return [at_least(what, KEPT, "x", found.kept(_OURS.name, most, least))]
