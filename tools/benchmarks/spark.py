"""The sink inside Spark beside its peers: JSON events from Parquet into a real Kafka, `local[1]`.

Each peer has a Spark of its own that stays warm; they take turns, round after round. Every
measured write comes straight after a small one of the same kind, so that no worker has to start.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Self

from tests.support.kafka.jars import ROOT
from tools.benchmarks.core import BATCHES, SAFE
from tools.benchmarks.payload import events_file
from tools.benchmarks.processes import ContestantError, python
from tools.benchmarks.sample import Sample, Series, attempt
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_WARM_UP = 20_000
_FIRST_WARM_UP = 400_000
_QUEUE = {
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "1048576",
    "batch.num.messages": "100000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkContestant:
    """A writer (see `spark_writers`), its producer options, and the codecs it is measured with."""

    name: str
    writer: str
    options: dict[str, str] = field(default_factory=dict)
    codecs: tuple[str, ...] = ("none", "lz4", "zstd")
    recommended_conf: bool = True


OURS, JVM = "kafkaprod", "Spark's kafka, 1 MiB batches"
NULL = "null Arrow sink"
CONTESTANTS = (
    SparkContestant(name=OURS, writer="kafkaprod"),
    SparkContestant(name=JVM, writer="jvm", options={**SAFE, **BATCHES}),
    SparkContestant(name="Spark's kafka, defaults", writer="jvm", codecs=("none",)),
    SparkContestant(
        name="kafkaprod, Spark's own conf",
        writer="kafkaprod",
        codecs=("none",),
        recommended_conf=False,
    ),
    SparkContestant(
        name="confluent-kafka in mapInArrow",
        writer="confluent",
        options={**SAFE, **BATCHES, **_QUEUE},
        codecs=("none",),
    ),
    SparkContestant(name=NULL, writer="null", codecs=("none",)),
    SparkContestant(
        name="null Arrow sink, Spark's own conf",
        writer="null",
        codecs=("none",),
        recommended_conf=False,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """Events of each write, and rounds."""

    records: int
    rounds: int


class WarmSpark:
    """A `spark_child` process, or another that serves orders, as a context manager."""

    def __init__(self, module: str = "tools.benchmarks.spark_child") -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            python(module),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def order(self, order: dict[str, Any]) -> Sample:
        """Let it write; raises ContestantError with the end of its log when it fails."""
        return Sample(**self.ask(order))

    def ask(self, order: dict[str, Any]) -> Any:
        """What it answers, from JSON; raises ContestantError as `order` does."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()
            answer = stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._errors.seek(0)
            log = self._errors.read().decode(errors="replace")
            raise ContestantError(
                f"Spark with {order.get('writer', 'kafkaprod')} failed:\n{log[-4000:]}"
            )
        return json.loads(answer)


def measure(bootstrap_servers: str, plan: SparkPlan, tell: Callable[[str], None]) -> list[Series]:
    """All rounds of all contestants and codecs."""
    tell(f"spark: making {plan.records:,} events")
    for records in (plan.records, _WARM_UP, _FIRST_WARM_UP):
        events_file(records)
    heats = [
        (contestant, Series(contestant.name, codec))
        for codec in ("none", "lz4", "zstd")
        for contestant in CONTESTANTS
        if codec in contestant.codecs
    ]
    with ExitStack() as stack:
        writers = {contestant.writer for contestant in CONTESTANTS}
        sparks = {writer: stack.enter_context(WarmSpark()) for writer in sorted(writers)}
        for contestant, series in heats:
            tell(f"spark: warming up {contestant.name}, {series.codec}")
            warm_up = partial(_heat, sparks, contestant, series.codec, bootstrap_servers)
            attempt(partial(warm_up, _FIRST_WARM_UP), series.failures, tell)
        for number in range(plan.rounds):
            for contestant, series in heats:
                what = f"{contestant.name}, {series.codec}"
                tell(f"spark, round {number + 1} of {plan.rounds}: {what}")
                write = partial(_heat, sparks, contestant, series.codec, bootstrap_servers)
                if attempt(partial(write, _WARM_UP), series.failures, tell) is not None:
                    series.add(partial(write, plan.records), tell)
    return [series for _, series in heats]


def _heat(
    sparks: dict[str, WarmSpark],
    contestant: SparkContestant,
    codec: str,
    bootstrap_servers: str,
    records: int,
) -> Sample:
    """One write into a topic of its own, which is counted afterwards."""
    settings = {"bootstrap.servers": bootstrap_servers, "compression.type": codec}
    expected = 0 if contestant.writer == "null" else records
    with fresh_topic(bootstrap_servers, expected) as topic:
        order = {
            "writer": contestant.writer,
            "topic": topic,
            "options": {**settings, **contestant.options},
            "events": str(events_file(records)),
            "records": records,
            "recommended_conf": contestant.recommended_conf,
        }
        return sparks[contestant.writer].order(order)
