"""Spark's own source and sink, in a Python environment with the release of the connector.

`python -m tools.compat.clients.spark_client [TASK SERVERS]` performs a task there.
"""

import os
import sys
import tempfile
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession

from tools.compat.clients.checks import (
    VALUES,
    ClientRow,
    Task,
    expect,
    fill,
    new_topic,
    produces,
    values_in,
)
from tools.compat.clients.command_line_clients import run_command
from tools.support.jars import ROOT, SPARK_SINK
from tools.support.spark_session import start

_PYTHON = ROOT / ".venv-pyspark-4.1" / "bin" / "python"


@cache
def _session() -> SparkSession:
    return start(Path(tempfile.mkdtemp(prefix="matrix-spark-")), (SPARK_SINK,))


def _options(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}


def _spark_send(servers: str, topic: str, _: str) -> None:
    frame = _session().createDataFrame([(value,) for value in VALUES], "value string")
    writer = frame.write.format("kafka").options(**_options(servers)).option("topic", topic)
    writer.mode("append").save()


def _spark_consumes(servers: str) -> None:
    """Read a topic in a batch job, and copy a topic in a stream."""
    topic, to = fill(servers), new_topic()
    reader = _session().read.format("kafka").options(**_options(servers))
    rows = reader.option("subscribe", topic).load().selectExpr("CAST(value AS STRING)").collect()
    expect(sorted(row.value for row in rows), sorted(VALUES))
    stream = _session().readStream.format("kafka").options(**_options(servers))
    frame = stream.option("subscribe", topic).load().select("value")
    with tempfile.TemporaryDirectory() as folder:
        writer = frame.writeStream.format("kafka").options(**_options(servers)).option("topic", to)
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        expect(query.awaitTermination(90), True)
    expect(values_in(servers, to), list(VALUES))


_TASKS = {Task.PRODUCE: produces(_spark_send, ("none",)), Task.CONSUME: _spark_consumes}


def _run_elsewhere(*arguments: str) -> str:
    """Run this module in the Python environment whose Spark version matches the connector's jars.

    The arguments are a task and bootstrap servers. Without them, the version of pyspark is printed.
    """
    line = [str(_PYTHON), "-m", "tools.compat.clients.spark_client", *arguments]
    return run_command(line, cwd=ROOT, env=os.environ | {"PYSPARK_PYTHON": str(_PYTHON)})


SPARK = ClientRow(
    name='Spark: format("kafka"), batch and stream, source and sink',
    read_version=_run_elsewhere,
    checks={task: partial(_run_elsewhere, task) for task in _TASKS},
)


def _main(task: str = "", servers: str = "") -> None:
    """Perform one of Spark's tasks in this process, or print the version of pyspark."""
    if task:
        _TASKS[Task(task)](servers)
    else:
        print(version("pyspark"), end="")


if __name__ == "__main__":
    _main(*sys.argv[1:])
