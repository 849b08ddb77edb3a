"""The producer core beside librdkafka in C and Java's ProducerPerformance, on a real Kafka.

Every run is a process of its own that sends the same records with acks=all and idempotence, and
measures from its first record to its last acknowledgement, after a warm-up. The contestants take
turns, round after round, so that a change of the machine's mood hits them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tools.benchmarks.core.contestants import EVENTS, JAVA_DEFAULTS, RANDOM, present
from tools.benchmarks.core.figures import CoreFigures
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import lines_file
from tools.benchmarks.sample import Series
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tools.benchmarks.core.contestants import Contestant
    from tools.benchmarks.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePlan:
    """How much to send: records and warm-up of each run, rounds, and what is sent how."""

    records: int
    warmup: int
    rounds: int

    def events(self) -> Iterable[tuple[str, str]]:
        """Payload and codec of each heat."""
        return ((RANDOM, "none"), (EVENTS, "none"), (EVENTS, "lz4"), (EVENTS, "zstd"))


def measure(bootstrap_servers: str, plan: CorePlan, tell: Callable[[str], None]) -> CoreFigures:
    """All rounds; the series by payload."""
    contestants = present(tell)
    results: dict[str, list[Series]] = {RANDOM: [], EVENTS: []}
    heats = [
        (contestant, payload, Series(contestant.name, codec))
        for payload, codec in plan.events()
        for contestant in contestants
        if payload == RANDOM or contestant.name != JAVA_DEFAULTS
    ]
    for _, payload, series in heats:
        results[payload].append(series)
    for number in range(plan.rounds):
        for contestant, payload, series in heats:
            tell(f"core, round {number + 1} of {plan.rounds}: {contestant.name}, {series.codec}")
            one = partial(_run, contestant, series.codec, payload, plan, bootstrap_servers)
            series.add(one, tell)
    return CoreFigures(results)


def _run(
    contestant: Contestant, codec: str, payload: str, plan: CorePlan, bootstrap_servers: str
) -> Sample:
    with fresh_topic(bootstrap_servers, plan.warmup + plan.records) as topic:
        return contestant.run(
            Job(
                bootstrap_servers=bootstrap_servers,
                topic=topic,
                payload=lines_file(payload),
                warmup=plan.warmup,
                records=plan.records,
                options={**contestant.options, "compression.type": codec},
            )
        )
