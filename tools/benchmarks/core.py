"""The producer core beside librdkafka in C and Java's ProducerPerformance, on a real Kafka.

Every run is a process of its own that sends the same records with acks=all and idempotence, and
measures from its first record to its last acknowledgement, after a warm-up. The contestants take
turns, round after round, so that a change of the machine's mood hits them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tools.benchmarks import core_librdkafka
from tools.benchmarks.core_librdkafka import NoCompilerError
from tools.benchmarks.job import Job
from tools.benchmarks.payload import lines_file
from tools.benchmarks.processes import python, run_contestant
from tools.benchmarks.sample import Series
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tools.benchmarks.sample import Sample

SAFE = {"acks": "all", "enable.idempotence": "true"}
BATCHES = {"batch.size": "1048576", "linger.ms": "50"}
_LIBRDKAFKA_QUEUE = {
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "1048576",
    "batch.num.messages": "100000",
}
OURS, LIBRDKAFKA = "kafkaprod core", "librdkafka in C"
JAVA_DEFAULTS, JAVA = "Java, defaults", "Java, 1 MiB batches"
EVENTS = "events"
RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A producer and the settings that it runs with."""

    name: str
    command: Callable[[Job], list[str]]
    options: dict[str, str] = field(default_factory=dict)

    def run(self, job: Job) -> Sample:
        """Send, measure, and let the topic be counted."""
        return run_contestant(self.command(job))


def _ours(job: Job) -> list[str]:
    return python("tools.benchmarks.core_ours", job.to_json())


def _java(job: Job) -> list[str]:
    return python("tools.benchmarks.core_java", job.to_json())


CONTESTANTS = (
    Contestant(name=OURS, command=_ours, options={**SAFE, **BATCHES}),
    Contestant(
        name=LIBRDKAFKA,
        command=core_librdkafka.command,
        options={**SAFE, **BATCHES, **_LIBRDKAFKA_QUEUE},
    ),
    Contestant(name=JAVA, command=_java, options={**SAFE, **BATCHES}),
    Contestant(name=JAVA_DEFAULTS, command=_java, options=SAFE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePlan:
    """How much to send: records and warm-up of each run, rounds, and what is sent how."""

    records: int
    warmup: int
    rounds: int

    def events(self) -> Iterable[tuple[str, str]]:
        """Payload and codec of each heat."""
        return ((RANDOM, "none"), (EVENTS, "none"), (EVENTS, "lz4"), (EVENTS, "zstd"))


def measure(
    bootstrap_servers: str, plan: CorePlan, tell: Callable[[str], None]
) -> dict[str, list[Series]]:
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
    return results


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


def present(tell: Callable[[str], None]) -> list[Contestant]:
    """Everyone, but librdkafka only where its program could be compiled."""
    try:
        core_librdkafka.build()
    except NoCompilerError as error:
        tell(f"librdkafka is left out: {error}")
        return [one for one in CONTESTANTS if one.name != LIBRDKAFKA]
    return list(CONTESTANTS)
