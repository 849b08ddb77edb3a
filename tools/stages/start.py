"""What the Python workers of a session's first write load before they do anything."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tests.support.kafka.jars import ROOT
from tools.benchmarks.tables import Table

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Step:
    """Modules that a worker loads one after the other, and how many of the four workers do."""

    name: str
    modules: tuple[str, ...]
    workers: int


STEPS = (
    Step("Python", (), 4),
    Step("pyspark, in the daemon of each kind of worker", ("pyspark.daemon",), 4),
    Step("pyarrow", ("pyspark.sql.worker.write_into_data_source", "pyarrow"), 4),
    Step("this sink", ("spark_kafka_sink.spark.datasource",), 4),
    Step("preflight, in the worker that plans", ("spark_kafka_sink.diagnostics.preflight",), 1),
    Step("its producer, in the worker that writes", ("spark_kafka_sink.producer.session_pool",), 1),
    Step("pandas, where it is installed, in the worker that writes", ("pandas",), 1),
)


def measure() -> Table:
    """CPU milliseconds of each step, after the steps before it in one process; medians."""
    rounds = [_cpu_s() for _ in range(_ROUNDS)]
    spent = [median(each) for each in zip(*rounds, strict=True)]
    return Table(
        "Workers of a session's first write: looking up the format, planning, writing, committing",
        ("what is loaded", "CPU ms", "in so many"),
        [
            (step.name, f"{cpu_s * 1000:.0f}", str(step.workers))
            for step, cpu_s in zip(STEPS, spent, strict=True)
        ],
    )


def _cpu_s() -> list[float]:
    """Seconds of each step in a new Python, without what only tests have installed."""
    lines = ["import sys, time", "sys.modules['hypothesis'] = None", "used = [0.0]"]
    for step in STEPS:
        lines += [f"import {module}" for module in step.modules]
        lines.append("used.append(time.process_time())")
    lines.append("print(used)")
    child = [sys.executable, "-c", "\n".join(lines)]
    used = json.loads(subprocess.run(child, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    return [after - before for before, after in pairwise(used)]
