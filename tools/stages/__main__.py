"""Measure the cost of each stage of a write: `python -m tools.stages [--only workers] [--docs]`.

Events with keys are read from Parquet and written to a real Kafka, with `local[1]` and a warm
session, alternately with and without the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyspark
from rich.console import Console

from spark_kafka_sink.spark import warm_up
from tools.benchmarks.installation import AS_USERS_HAVE
from tools.benchmarks.payload import events_file
from tools.benchmarks.results import Table, describe, one_line
from tools.benchmarks.spark.contestants import FLIGHT, SMALL_ROWS, WarmSpark
from tools.benchmarks.topics import fresh_topic, measured_kafka
from tools.docs.pages import write_block
from tools.stages.child import STAGES
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHILD = "tools.stages.child"
_ROUNDS = 5
_WORKER = "pyspark.sql.worker."
_SINK = "spark_kafka_sink."


def _sink(modules: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{_SINK}{module}" for module in modules)


_STEPS = ("Python", "pyspark.daemon", "the worker's module", "pyarrow", "this sink", "pandas")


@dataclass(frozen=True, slots=True)
class Worker:
    """A kind of worker process: its module, and the modules that it imports later."""

    name: str
    module: str
    sink: tuple[str, ...]
    """Modules of this package that import all other modules; see tests/unit/test_package.py."""
    arrow: bool = False
    pandas: bool = False
    """Imported by pyarrow (if installed) when PySpark serializes the result of a task."""

    def steps(self) -> list[tuple[str, ...]]:
        """Return the modules by step, in the order of `_STEPS`."""
        arrow = ("pyarrow",) if self.arrow else ()
        pandas = ("pandas",) if self.pandas else ()
        return [(), ("pyspark.daemon",), (self.module,), arrow, self.sink, pandas]


WORKERS = (
    Worker("lookup", f"{_WORKER}lookup_data_sources", ("pyspark_kafkaprod",)),
    Worker(
        "plan",
        f"{_WORKER}write_into_data_source",
        _sink(warm_up.PLANNING),
        arrow=True,
    ),
    Worker(
        "task",
        "pyspark.worker",
        _sink(warm_up.TASK),
        arrow=True,
        pandas=True,
    ),
    Worker(
        "commit",
        f"{_WORKER}commit_data_source_write",
        _sink(warm_up.COMMIT),
    ),
)


def measure_start() -> Table:
    """Return a table of the median CPU milliseconds of each step, after the earlier steps."""
    by_worker = [_medians([_cpu_s(worker) for _ in range(_ROUNDS)]) for worker in WORKERS]
    return Table(
        "Workers of a session's first write, in order: CPU ms to load modules",
        ("loaded modules", *(worker.name for worker in WORKERS)),
        [
            (name, *(f"{spent[number] * 1000:.0f}" for spent in by_worker))
            for number, name in enumerate(_STEPS)
        ],
    )


_FIRST_RECORDS = 20_000
_FIRST_ROUNDS = 3


def measure_first_writes() -> Table:
    """Return a table of the median CPU milliseconds of the processes in a session's first write."""
    with measured_kafka() as kafka:
        found = [_first_write(kafka.bootstrap_servers) for _ in range(_FIRST_ROUNDS)]
    daemons, forks = (
        [median(each[worker.module][number] for each in found) * 1000 for worker in WORKERS]
        for number in (0, 1)
    )
    return Table(
        f"The same workers in a first write of {_FIRST_RECORDS:,} events: CPU ms",
        ("process", *(worker.name for worker in WORKERS)),
        [
            ("daemon", *(f"{spent:.0f}" for spent in daemons)),
            ("forked worker", *(f"{spent:.0f}" for spent in forks)),
        ],
    )


def _first_write(servers: str) -> dict[str, list[float]]:
    """Return the CPU seconds of each daemon and its workers, by module."""
    with fresh_topic(servers, _FIRST_RECORDS) as topic, WarmSpark(_CHILD) as spark:
        events = str(events_file(_FIRST_RECORDS))
        order = {"events": events, "bootstrap_servers": servers, "topic": topic}
        answer: dict[str, list[float]] = spark.ask(order)
        return answer


def _medians(rounds: list[list[float]]) -> list[float]:
    return [median(step) for step in zip(*rounds, strict=True)]


def spark_path() -> str:
    """Return the PYTHONPATH of Spark's workers, which starts with Spark's archives."""
    home = Path(pyspark.__file__).parent
    archives = sorted((home / "python" / "lib").glob("*.zip"), reverse=True)
    core = (home / "jars").glob("spark-core_*.jar")
    return os.pathsep.join(map(str, (*archives, *core, AS_USERS_HAVE, ROOT)))


def _cpu_s(worker: Worker) -> list[float]:
    """Return the CPU seconds of each step in a new Python process."""
    lines = ["import sys, time", "used = [0.0]"]
    for modules in worker.steps():
        lines += [f"import {module}" for module in modules]
        lines.append("used.append(time.process_time())")
    lines.append("import json; print(json.dumps(used))")
    child = [sys.executable, "-c", "\n".join(lines)]
    environment = {**os.environ, "PYTHONPATH": spark_path()}
    done = subprocess.run(child, env=environment, check=True, stdout=subprocess.PIPE)
    return [after - before for before, after in pairwise(json.loads(done.stdout))]


BLOCK = "stages"


def measure(records: int, rounds: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (result with the clock, result without the clock) for each round."""
    found = []
    with measured_kafka() as kafka, WarmSpark(_CHILD) as spark:
        for number in range(rounds + 1):
            answers = [
                _write(spark, kafka.bootstrap_servers, records, timed=timed)
                for timed in (True, False)
            ]
            if number:  # The first round is a warm-up.
                found.append((answers[0], answers[1]))
    return found


def _write(spark: WarmSpark, servers: str, records: int, *, timed: bool) -> dict[str, Any]:
    with fresh_topic(servers, records) as topic:
        order = {
            "conf": SMALL_ROWS,
            "events": str(events_file(records)),
            "key": FLIGHT,
            "bootstrap_servers": servers,
            "topic": topic,
            "timed": timed,
        }
        answer: dict[str, Any] = spark.ask(order)
        return answer


def table(found: list[tuple[dict[str, Any], dict[str, Any]]], records: int) -> Table:
    """Return a table of microseconds per record (medians)."""

    def us(values: list[float]) -> str:
        return f"{median(values) / records * 1e6:.3f}"

    rows = [("JVM", "reads Parquet, builds Arrow batches", us([a["jvm_cpu_s"] for _, a in found]))]
    for stage in STAGES:
        times = [timed["stages"].get(stage.name, 0.0) for timed, _ in found]
        rows.append((stage.thread.value, stage.name, us(times)))
    workers = us([plain["workers_cpu_s"] for _, plain in found])
    rows.append(("worker", "total, without the clock", workers))
    return Table(
        f"{records:,} keyed events of 131 bytes, local[1]: CPU us a record",
        ("where", "stage", "us"),
        tuple(rows),
    )


_PARTS = _STAGES, _WORKERS = "stages", "workers"


def main() -> None:
    """Measure and print the results; update the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=_PARTS, help="measure only the stages or the workers")
    parser.add_argument("--docs", action="store_true", help="write docs/where-time-goes.md")
    options = parser.parse_args()
    if options.docs and options.only:
        parser.error("--docs requires the whole measurement, without --only")
    machine, console = one_line(describe()), Console(width=120)
    tables = []
    if options.only != _WORKERS:
        tables.append(table(measure(options.records, options.rounds), options.records))
    if options.only != _STAGES:
        tables += [measure_start(), measure_first_writes()]
    console.print(machine)
    for each in tables:
        console.print(each.rich())
    if options.docs:
        text = "\n\n".join(each.markdown() for each in tables)
        write_block(BLOCK, f"{machine}\n\n{text}\n")


if __name__ == "__main__":
    main()
