"""The sinks compared in Spark, their settings, and the warm Spark processes that run them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any, Self

from tools.benchmarks.core.contestants import BATCHES, LIBRDKAFKA_QUEUE, SAFE
from tools.benchmarks.kafka import PARTITIONS, new_topics
from tools.benchmarks.payload import events_file
from tools.benchmarks.results import ContestantError, Log, Sample, Series, take_turns
from tools.support.jars import ROOT

_TIMEOUT_S = 300
"""Seconds to wait for a response. Writes take far less time."""
CODECS = ("none", "lz4", "zstd")
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
UNLIMITED = "2147483647"
SMALL_ROWS = {ARROW_BYTES: UNLIMITED}
"""Settings in conf/spark-small-rows.conf that differ from Spark's defaults."""
FLIGHT = "substring(value, 11, 4)"
"""Expression for a key: the flight number of an event, which has 9,000 values."""
PYTHON_41 = ROOT / ".venv-pyspark-4.1" / "bin" / "python"
"""Python of the environment with the oldest pyspark, which `make bench` or `make test` creates."""
OURS, JVM = "kafkaprod", "Spark's kafka, 1 MiB batches"
NULL = "null Arrow sink"
_DISCARDING = ("null", "noop")
"""Writers that do not write records to Kafka."""
WARM_UP = 20_000
"""Number of events of the write before each measured write.

It starts the workers. The broker creates the files and indexes of a topic during its first write,
which takes longer than writing the records if there are many partitions.
"""
FIRST_WARM_UP = 400_000
"""Maximum events of the first write of each kind, during which the JVM compiles."""


class WarmSpark:
    """Context manager for a process that runs benchmark jobs, in a session with these arguments.

    Starts the process for the first job, and again for the next job after a failure.
    """

    def __init__(self, python: str = sys.executable, **session: Any) -> None:
        self._command = (python, "-m", "tools.benchmarks.spark.child", json.dumps(session))
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # Closed by `__exit__`.

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._errors.close()

    def ask(self, order: dict[str, Any], timeout_s: float = _TIMEOUT_S) -> Any:
        """Execute an order and return the response, parsed from JSON.

        Raises:
            ContestantError: the process failed or hangs. The message ends with its log.
        """
        answer = self._answer(json.dumps(order) + "\n", timeout_s)
        if not answer:
            self._stop()
            self._errors.seek(0)
            log = self._errors.read().decode(errors="replace")[-4000:]
            raise ContestantError(f"Spark with {order.get('writer', 'kafkaprod')} failed:\n{log}")
        return json.loads(answer)

    def write(
        self,
        writer: str,
        options: Mapping[str, str],
        records: int,
        timeout_s: float = _TIMEOUT_S,
        **more: Any,
    ) -> Sample:
        """Write the Parquet files in `events`, or a range of `records`. Raises like `ask`.

        `writer` is a data source, or a function in the process (see its `WRITERS`). The other
        arguments are like those of a contestant; `tasks` is the number of tasks that read.
        """
        usual: dict[str, Any] = {
            "events": None,
            "select": ("*",),
            "columns": {},
            "conf": {},
            "tasks": None,
        }
        order = {**usual, "writer": writer, "options": options, "records": records, **more}
        return Sample(**self.ask(order, timeout_s))

    def _answer(self, line: str, timeout_s: float) -> str:
        """Send a line and return the response line, which is empty after a failure."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=pipe,
                stdout=pipe,
                stderr=self._errors,
                text=True,
                encoding="utf-8",
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(timeout_s, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            timer.cancel()

    def _stop(self) -> None:
        """Stop the process by closing its input, and kill it if necessary."""
        if self._process is not None:
            try:
                self._process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
            self._process = None


def keyed(name: str) -> str:
    """Return the name of a contestant whose records have keys."""
    return f"{name}, keyed"


def not_measured(name: str) -> str:
    """Return the name of the contestant with the settings in conf/spark-small-rows.conf."""
    return f"{name}, small-rows.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkContestant:
    """A writer (see `WarmSpark.write`), its producer options, and the codecs to measure.

    `source` returns the Parquet file with a number of records. `select` contains the expressions
    read from it, and `columns` contains further expressions over the column `value`. `conf`
    contains settings of the session that differ from Spark's defaults. `python` is the interpreter
    of the driver and the workers.
    """

    name: str
    writer: str
    options: Mapping[str, str] = field(default_factory=dict)
    codecs: tuple[str, ...] = CODECS
    source: Callable[[int], Path] = events_file
    select: tuple[str, ...] = ("*",)
    columns: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def keyed(self) -> SparkContestant:
        """Return this contestant with a key in each record."""
        return replace(self, name=keyed(self.name), columns={**self.columns, "key": FLIGHT})

    def not_measured(self) -> SparkContestant:
        """Return this contestant with Arrow batches that Spark does not measure."""
        return replace(self, name=not_measured(self.name), conf=SMALL_ROWS)


SINK = SparkContestant(name=OURS, writer="kafkaprod")
TUNED_JVM = SparkContestant(name=JVM, writer="kafka", options={**SAFE, **BATCHES})
DEFAULT_JVM = SparkContestant(name="Spark's kafka, defaults", writer="kafka", codecs=("none",))
SINK_41 = replace(SINK, name=f"{OURS}, pyspark 4.1", codecs=("none",), python=str(PYTHON_41))
WRITE = replace(SINK, name="write(df, options)", writer="write", codecs=("none",))
NULL_SINK = SparkContestant(name=NULL, writer="null", codecs=("none",))
CONFLUENT = SparkContestant(
    name="confluent-kafka in mapInArrow",
    writer="confluent",
    options={**SAFE, **BATCHES, **LIBRDKAFKA_QUEUE},
    codecs=("none", "zstd"),
)
CONTESTANTS = (
    SINK,
    TUNED_JVM,
    SINK.keyed(),
    TUNED_JVM.keyed(),
    WRITE,
    replace(SINK.not_measured(), codecs=("none",)),
    WRITE.not_measured(),
    DEFAULT_JVM,
    CONFLUENT,
    CONFLUENT.keyed(),
    replace(SINK.not_measured().keyed(), codecs=("none",)),
    NULL_SINK,
    NULL_SINK.not_measured(),
    SparkContestant(name="Spark's noop, which reads only", writer="noop", codecs=("none",)),
    SINK_41,
    SINK_41.keyed(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWrite:
    """A contestant, and the size, codec and topics of its writes.

    `topics` is the number of topics with one partition each, which a column selects. Without it,
    the writes go to one topic with `partitions` partitions. `facts` distinguish the series.
    """

    contestant: SparkContestant
    records: int
    codec: str = "none"
    partitions: int = PARTITIONS
    topics: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def run(
        self, spark: WarmSpark, bootstrap_servers: str, records: int, warm_up: int = WARM_UP
    ) -> Sample:
        """Write `warm_up` records and then `records` to new topics; return the second sample."""
        expected = 0 if self.contestant.writer in _DISCARDING else records + warm_up
        count, partitions = (self.topics, 1) if self.topics else (1, self.partitions)
        with new_topics(bootstrap_servers, expected, count=count, partitions=partitions) as topics:
            write = partial(self._write_records, spark, bootstrap_servers, topics)
            if warm_up:
                write(warm_up)
            return write(records)

    def _write_records(
        self, spark: WarmSpark, bootstrap_servers: str, topics: list[str], records: int
    ) -> Sample:
        contestant = self.contestant
        columns, to = dict(contestant.columns), {"topic": topics[0]}
        if self.topics:
            prefix, to = topics[0].removesuffix("0"), {}
            columns["topic"] = f"concat('{prefix}', cast({FLIGHT} as int) % {self.topics})"
        settings = {"bootstrap.servers": bootstrap_servers, "compression.type": self.codec}
        return spark.write(
            contestant.writer,
            {**to, **_prefixed(contestant.writer, {**settings, **contestant.options})},
            records,
            events=str(contestant.source(records)),
            select=contestant.select,
            columns=columns,
            conf=contestant.conf,
        )


def _prefixed(writer: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a producer as options of a writer."""
    if writer == "confluent":
        return dict(options)
    # `value.format` is an option of the sink, without the prefix.
    return {name if name == "value.format" else f"kafka.{name}": options[name] for name in options}


def measure_writes(
    what: str, bootstrap_servers: str, rounds: int, writes: Sequence[SparkWrite], log: Log
) -> list[Series]:
    """Run all rounds of these writes. Each writer has its own warm Spark."""
    runs = []
    with ExitStack() as stack:
        sparks: dict[tuple[str, str], WarmSpark] = {}
        for write in writes:
            contestant = write.contestant
            key = (contestant.writer, contestant.python)
            if key not in sparks:
                sparks[key] = stack.enter_context(WarmSpark(python=contestant.python))
            series = Series(contestant.name, write.codec, write.facts)
            run = partial(write.run, sparks[key], bootstrap_servers)
            log(f"{what}: warming up {series.name}")
            run(min(write.records, FIRST_WARM_UP))
            runs.append((series, partial(run, write.records)))
        return take_turns(what, rounds, runs, log)
