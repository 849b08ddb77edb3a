"""Spark's own format("kafka"): batch and stream, source and sink."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.compat.clients.check import VALUES, ClientRow, Task, expect, new_topic
from tools.compat.clients.confluent import fill, values_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.compat.clients.check import Check

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv-pyspark41" / "bin" / "python"


@cache
def _session() -> SparkSession:
    from tools.support.spark_session import start

    return start(Path(tempfile.mkdtemp(prefix="matrix-spark-")))


def _options(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}


def _produce(servers: str) -> None:
    topic = new_topic()
    frame = _session().createDataFrame([(value,) for value in VALUES], "value string")
    writer = frame.write.format("kafka").options(**_options(servers)).option("topic", topic)
    writer.mode("append").save()
    expect(values_in(servers, topic), list(VALUES))


def _consume(servers: str) -> None:
    topic = fill(servers)
    reader = _session().read.format("kafka").options(**_options(servers))
    rows = reader.option("subscribe", topic).load().selectExpr("CAST(value AS STRING)").collect()
    expect(sorted(row.value for row in rows), sorted(VALUES))
    _stream(servers, topic)


def _stream(servers: str, topic: str) -> None:
    to = new_topic()
    reader = _session().readStream.format("kafka").options(**_options(servers))
    frame = reader.option("subscribe", topic).load().select("value")
    with tempfile.TemporaryDirectory() as folder:
        writer = frame.writeStream.format("kafka").options(**_options(servers)).option("topic", to)
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        expect(query.awaitTermination(90), True)
    expect(values_in(servers, to), list(VALUES))


_TASKS = {Task.PRODUCE: _produce, Task.CONSUME: _consume}


def main() -> None:
    """Do one task in this process: `python -m tools.compat.clients.spark TASK SERVERS`."""
    _TASKS[Task(sys.argv[1])](sys.argv[2])


def _elsewhere(task: Task) -> Check:
    """A check in the environment whose Spark fits the connector's archives."""

    def run(servers: str) -> None:
        line = [str(PYTHON), "-m", "tools.compat.clients.spark", task, servers]
        environment = os.environ | {"PYSPARK_PYTHON": str(PYTHON)}
        done = subprocess.run(
            line,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"exit status {done.returncode}: {done.stderr[-2000:]}")

    return run


def _version() -> str:
    code = "import importlib.metadata as m; print(m.version('pyspark'))"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout


def spark() -> ClientRow:
    """The row; its version is that of the other environment."""
    return ClientRow(
        name='Spark: format("kafka"), batch and stream, source and sink',
        version=_version().strip(),
        checks={task: _elsewhere(task) for task in _TASKS},
    )


if __name__ == "__main__":
    main()
