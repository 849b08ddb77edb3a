"""The producers that the core is compared with, and how each is started."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.benchmarks.core import librdkafka
from tools.benchmarks.core.librdkafka import NoCompilerError
from tools.benchmarks.processes import python, run_contestant

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.benchmarks.core.job import Job
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
    return python("tools.benchmarks.core.ours", job.to_json())


def _java(job: Job) -> list[str]:
    return python("tools.benchmarks.core.java", job.to_json())


SINK = Contestant(name=OURS, command=_ours, options={**SAFE, **BATCHES})
CONTESTANTS = (
    SINK,
    Contestant(
        name=LIBRDKAFKA,
        command=librdkafka.command,
        options={**SAFE, **BATCHES, **_LIBRDKAFKA_QUEUE},
    ),
    Contestant(name=JAVA, command=_java, options={**SAFE, **BATCHES}),
    Contestant(name=JAVA_DEFAULTS, command=_java, options=SAFE),
)


def present(tell: Callable[[str], None]) -> list[Contestant]:
    """Everyone, but librdkafka only where its program could be compiled."""
    try:
        librdkafka.build()
    except NoCompilerError as error:
        tell(f"librdkafka is left out: {error}")
        return [one for one in CONTESTANTS if one.name != LIBRDKAFKA]
    return list(CONTESTANTS)
