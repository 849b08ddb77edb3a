"""Measure the cost of each stage of a write: `python -m tools.stages [--docs]`.

Events with keys are read from Parquet and written to a real Kafka, with `local[1]` and a warm
session, alternately with and without the clock.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from unittest.mock import patch

import pyspark

from spark_kafka_sink.spark.runtime import preloading
from tools.benchmarks.installation import AS_USERS_HAVE
from tools.benchmarks.kafka import MeasuredKafka
from tools.benchmarks.results import describe
from tools.benchmarks.spark.contestants import SINK, WRITE, SparkWrite, WarmSpark
from tools.benchmarks.tables import Table
from tools.docs.pages import write_block
from tools.stages.clock import FOLDER, STAGES, take_seconds
from tools.support.jars import ROOT

_STAGED = replace(SINK, writer="tools.stages.clock:StagedDataSource")
_ROUNDS = 5
_STEPS = ("Python", "pyspark.daemon", "the worker's module", "pyarrow", "this sink", "pandas")


def _steps(module: str, sink: Sequence[str], *, arrow: bool, pandas: bool) -> list[Sequence[str]]:
    """Return the modules that a worker imports in each of `_STEPS`.

    pyarrow imports pandas (if installed) when PySpark serializes the result of a task.
    """
    libraries = ["pyarrow"] if arrow else [], ["pandas"] if pandas else []
    return [[], ["pyspark.daemon"], [module], libraries[0], sink, libraries[1]]


def _sink(modules: Sequence[str]) -> list[str]:
    """Return modules that import all other modules; see tests/unit/test_spark_kafka_sink.py."""
    return [f"spark_kafka_sink.{module}" for module in modules]


_MODULES = {
    "lookup": "pyspark.sql.worker.lookup_data_sources",
    "plan": "pyspark.sql.worker.write_into_data_source",
    "task": "pyspark.worker",
    "commit": "pyspark.sql.worker.commit_data_source_write",
}
"""The modules of the workers of a session's first write, in order."""
WORKERS = {
    "lookup": _steps(_MODULES["lookup"], ["pyspark_kafkaprod"], arrow=False, pandas=False),
    "plan": _steps(_MODULES["plan"], _sink(preloading.PLANNING), arrow=True, pandas=False),
    "task": _steps(_MODULES["task"], _sink(preloading.TASK), arrow=True, pandas=True),
    "commit": _steps(_MODULES["commit"], _sink(preloading.COMMIT), arrow=False, pandas=False),
}


def measure_start() -> Table:
    """Return a table of the median CPU milliseconds of each step, after the earlier steps."""
    by_worker = [
        [median(step) for step in zip(*(_cpu_s(steps) for _ in range(_ROUNDS)), strict=True)]
        for steps in WORKERS.values()
    ]
    return Table(
        "Workers of a session's first write, in order: CPU ms to load modules",
        ("loaded modules", *WORKERS),
        [
            (name, *(f"{spent[number] * 1000:.0f}" for spent in by_worker))
            for number, name in enumerate(_STEPS)
        ],
    )


def _cpu_s(steps: Sequence[Sequence[str]]) -> list[float]:
    """Return the CPU seconds of each step in a new Python process."""
    lines = ["import sys, time", "used = [0.0]"]
    for modules in steps:
        lines += [f"import {module}" for module in modules]
        lines.append("used.append(time.process_time())")
    lines.append("import json; print(json.dumps(used))")
    child = [sys.executable, "-c", "\n".join(lines)]
    environment = {**os.environ, "PYTHONPATH": _spark_path()}
    done = subprocess.run(child, env=environment, check=True, stdout=subprocess.PIPE)
    return [after - before for before, after in pairwise(json.loads(done.stdout))]


def _spark_path() -> str:
    """Return the PYTHONPATH of Spark's workers, which starts with Spark's archives."""
    home = Path(pyspark.__file__).parent
    archives = sorted((home / "python" / "lib").glob("*.zip"), reverse=True)
    core = (home / "jars").glob("spark-core_*.jar")
    return os.pathsep.join(map(str, (*archives, *core, AS_USERS_HAVE, ROOT)))


_FIRST_RECORDS = 20_000
_FIRST_ROUNDS = 3


def measure_first_writes(servers: str) -> Table:
    """Return a table of the median CPU milliseconds of the processes in a session's first write."""
    answers: list[dict[str, list[float]]] = []
    for _ in range(_FIRST_ROUNDS):
        with WarmSpark() as spark:
            write = SparkWrite(contestant=SINK, records=_FIRST_RECORDS)
            write.run(spark, servers, _FIRST_RECORDS, warm_up=0)
            answers.append(spark.ask({"daemons": True}))
    rows = [
        (
            process,
            *(
                f"{median(answer[module][number] for answer in answers) * 1000:.0f}"
                for module in _MODULES.values()
            ),
        )
        for number, process in enumerate(("daemon", "forked worker"))
    ]
    title = f"The same workers in a first write of {_FIRST_RECORDS:,} events: CPU ms"
    return Table(title, ("process", *WORKERS), rows)


def measure_first_calls(servers: str) -> Table:
    """Return a table of the median milliseconds of the phases of a session's first `write`."""
    answers: list[dict[str, float]] = []
    for _ in range(_FIRST_ROUNDS):
        with WarmSpark() as spark:
            write = SparkWrite(contestant=WRITE, records=_FIRST_RECORDS)
            write.run(spark, servers, _FIRST_RECORDS, warm_up=0)
            daemon, worker = spark.ask({"daemons": True})[_MODULES["task"]]
            answers.append(spark.ask({"phases": True}) | {"daemon": daemon, "worker": worker})

    def ms(*phases: str) -> str:
        first, *others = (median(answer[phase] for answer in answers) for phase in phases)
        return f"{(first - sum(others)) * 1000:.0f}"

    rows = [
        ("planning, in the caller's process", ms("plan")),
        ("the Spark job", ms("job")),
        ("CPU time in it: Python's daemon", ms("daemon")),
        ("CPU time in it: forked worker", ms("worker")),
        ("commit and report", ms("all", "plan", "job")),
    ]
    title = f"The first call of `write` in a session, {_FIRST_RECORDS:,} events: ms"
    return Table(title, ("phase", "ms"), rows)


def measure_stages(servers: str, records: int) -> Table:
    """Return a table of the median CPU microseconds per record of each stage."""
    timed, plain = [], []
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {FOLDER: folder}):
        sinks = [
            SparkWrite(contestant=contestant.keyed(), records=records)
            for contestant in (_STAGED, SINK)
        ]
        with WarmSpark() as spark:
            for _ in range(_ROUNDS + 1):
                _, sample = (sink.run(spark, servers, records, warm_up=0) for sink in sinks)
                timed.append(take_seconds(Path(folder)))
                plain.append(sample)

    def us(values: list[float]) -> str:
        return f"{median(values[1:]) / records * 1e6:.3f}"  # The first round is a warm-up.

    rows = [
        (
            "JVM",
            "reads Parquet, builds Arrow batches",
            us([sample_of_write.jvm_cpu_s for sample_of_write in plain]),
        ),
        *(
            (stage.thread, stage.name, us([times[stage.name] for times in timed]))
            for stage in STAGES
        ),
        ("worker", "total, without the clock", us([times.workers_cpu_s for times in plain])),
    ]
    title = f"{records:,} keyed events of 131 bytes, local[1]: CPU us a record"
    return Table(title, ("where", "stage", "us"), rows)


def main() -> None:
    """Measure and print the results; update the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--docs", action="store_true", help="write docs/where-time-goes.md")
    options = parser.parse_args()
    machine = describe()
    with MeasuredKafka() as kafka:
        tables = [
            measure_stages(kafka.bootstrap_servers, options.records),
            measure_start(),
            measure_first_writes(kafka.bootstrap_servers),
            measure_first_calls(kafka.bootstrap_servers),
        ]
    text = "\n\n".join([machine, *(table.markdown() for table in tables)]) + "\n"
    print(text)
    if options.docs:
        write_block("stages", text)


if __name__ == "__main__":
    main()
