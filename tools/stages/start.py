"""What the Python workers of a session's first write load before they do anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import pyspark

from tools.benchmarks.installation import AS_USERS_HAVE
from tools.benchmarks.results import Table
from tools.support.jars import ROOT

_ROUNDS = 5
_WORKER = "pyspark.sql.worker."
_SINK = "spark_kafka_sink."
_STEPS = ("Python", "pyspark.daemon", "the worker's module", "pyarrow", "this sink", "pandas")


@dataclass(frozen=True, slots=True)
class Worker:
    """A kind of worker process: its module, and what it imports after it."""

    name: str
    module: str
    sink: tuple[str, ...]
    """The modules of this package that lead to all others; see tests/unit/test_package.py."""
    arrow: bool = False
    pandas: bool = False
    """pyarrow imports it, where it is installed, when PySpark packs the answer of a task."""

    def steps(self) -> list[tuple[str, ...]]:
        """Modules by step, in the order of `_STEPS`."""
        arrow = ("pyarrow",) if self.arrow else ()
        pandas = ("pandas",) if self.pandas else ()
        return [(), ("pyspark.daemon",), (self.module,), arrow, self.sink, pandas]


WORKERS = (
    Worker("look-up", f"{_WORKER}lookup_data_sources", ("pyspark_kafkaprod",)),
    Worker(
        "plan",
        f"{_WORKER}write_into_data_source",
        (
            f"{_SINK}spark.plan",
            f"{_SINK}config.builder",
            f"{_SINK}diagnostics.preflight",
        ),
        arrow=True,
    ),
    Worker(
        "task",
        "pyspark.worker",
        (f"{_SINK}spark.writer", f"{_SINK}spark.columns", f"{_SINK}producer.session"),
        arrow=True,
        pandas=True,
    ),
    Worker(
        "commit",
        f"{_WORKER}commit_data_source_write",
        (f"{_SINK}spark.writer", f"{_SINK}config.model", f"{_SINK}spark.reports.publication"),
    ),
)


def measure() -> Table:
    """CPU milliseconds of each step, after the steps before it in one process; medians."""
    by_worker = [_medians([_cpu_s(worker) for _ in range(_ROUNDS)]) for worker in WORKERS]
    return Table(
        "Workers of a session's first write, one after the other: CPU ms of what each loads",
        ("what is loaded", *(worker.name for worker in WORKERS)),
        [
            (name, *(f"{spent[number] * 1000:.0f}" for spent in by_worker))
            for number, name in enumerate(_STEPS)
        ],
    )


def _medians(rounds: list[list[float]]) -> list[float]:
    return [median(step) for step in zip(*rounds, strict=True)]


def spark_path() -> str:
    """The PYTHONPATH that Spark gives its workers: archives, which are looked through first."""
    home = Path(pyspark.__file__).parent
    archives = sorted((home / "python" / "lib").glob("*.zip"), reverse=True)
    core = (home / "jars").glob("spark-core_*.jar")
    return os.pathsep.join(map(str, (*archives, *core, AS_USERS_HAVE, ROOT)))


def _cpu_s(worker: Worker) -> list[float]:
    """Seconds of each step in a new Python."""
    lines = ["import sys, time", "used = [0.0]"]
    for modules in worker.steps():
        lines += [f"import {module}" for module in modules]
        lines.append("used.append(time.process_time())")
    lines.append("import json; print(json.dumps(used))")
    child = [sys.executable, "-c", "\n".join(lines)]
    environment = {**os.environ, "PYTHONPATH": spark_path()}
    done = subprocess.run(child, env=environment, check=True, stdout=subprocess.PIPE)
    return [after - before for before, after in pairwise(json.loads(done.stdout))]
