"""The sink inside Spark beside its peers: JSON events from Parquet into a real Kafka, `local[1]`.

Each peer has a Spark of its own that stays warm; they take turns, round after round. Every
measured write comes straight after a small one of the same kind, so that no worker has to start.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tools.benchmarks.payload import events_file
from tools.benchmarks.sample import Series, attempt
from tools.benchmarks.spark.contestants import CODECS, present
from tools.benchmarks.spark.figures import SparkFigures
from tools.benchmarks.spark.warm import WarmSpark
from tools.benchmarks.topics import PARTITIONS, fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.benchmarks.sample import Sample
    from tools.benchmarks.spark.contestants import SparkContestant

WARM_UP = 20_000
"""Events of the write before each one that is measured."""
FIRST_WARM_UP = 400_000
"""Events of the first write of each kind: the JVM compiles meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """Events of each write, and rounds."""

    records: int
    rounds: int


def measure(bootstrap_servers: str, plan: SparkPlan, tell: Callable[[str], None]) -> SparkFigures:
    """All rounds of all contestants and codecs."""
    tell(f"spark: making {plan.records:,} events")
    for records in (plan.records, WARM_UP, FIRST_WARM_UP):
        events_file(records)
    contestants = present(tell)
    heats = [
        (contestant, Series(contestant.name, codec))
        for codec in CODECS
        for contestant in contestants
        if codec in contestant.codecs
    ]
    with ExitStack() as stack:
        sparks = {
            each: stack.enter_context(WarmSpark(python=each[1]))
            for each in dict.fromkeys(contestant.spark for contestant in contestants)
        }
        for contestant, series in heats:
            tell(f"spark: warming up {contestant.name}, {series.codec}")
            spark = sparks[contestant.spark]
            warm_up = partial(write, spark, contestant, bootstrap_servers, codec=series.codec)
            attempt(partial(warm_up, FIRST_WARM_UP), series.failures, tell)
        for number in range(plan.rounds):
            for contestant, series in heats:
                what = f"{contestant.name}, {series.codec}"
                tell(f"spark, round {number + 1} of {plan.rounds}: {what}")
                spark = sparks[contestant.spark]
                run = partial(write, spark, contestant, bootstrap_servers, codec=series.codec)
                if attempt(partial(run, WARM_UP), series.failures, tell) is not None:
                    series.add(partial(run, plan.records), tell)
    return SparkFigures([series for _, series in heats])


def write(
    spark: WarmSpark,
    contestant: SparkContestant,
    bootstrap_servers: str,
    records: int,
    *,
    codec: str = "none",
    partitions: int = PARTITIONS,
) -> Sample:
    """One write into a topic of its own, which is counted afterwards."""
    expected = contestant.expected(records)
    with fresh_topic(bootstrap_servers, expected, partitions=partitions) as topic:
        return spark.order(contestant.order(topic, bootstrap_servers, records, codec))
