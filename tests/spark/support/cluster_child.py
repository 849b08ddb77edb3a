"""Write on a failing cluster: `cluster_child FOLDER SERVERS KIND [NAME=VALUE ...]`.

Speculation starts a second attempt of a slow task during a write. Then a task fails after some
rows, and an executor or a worker is killed during a write, so that Spark repeats a shuffle stage.
With KIND `local-cluster`, executors are separate processes; with `standalone`, master and workers
are too. The options are those of the sink.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark_kafka_sink import ReportError, last_report, write
from tests.spark.support.append import append
from tests.spark.support.standalone import WORKER, standalone
from tools.support.java import QUICK_JVM

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS = 400
WITH_WRITE = "WITH_WRITE"
"""Environment variable; if it is set, the child calls `write` instead of using the format."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": " ".join(QUICK_JVM),
    "spark.task.maxFailures": "8",
    "spark.stage.maxConsecutiveAttempts": "8",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
}
_SLEEP = "substring(java_method('java.lang.Thread', 'sleep', {}L), 1, 0)"


def main(folder: Path, kind: str, options: dict[str, str]) -> None:
    """Write three times and write the reports to the folder."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if kind == "standalone":
        with standalone(folder) as url:
            _write_all(url, WORKER, folder, options)
    else:
        _write_all("local-cluster[2,1,600]", "CoarseGrainedExecutorBackend", folder, options)


def _write_all(master: str, victim: str, folder: Path, options: dict[str, str]) -> None:
    """Write three times; `victim` is part of the command line of the process to kill."""
    builder = SparkSession.builder.master(master)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _write(_slow_first_task(spark), options, "speculation", folder)
    _write(_failing_first_attempt(spark), options, "task-retry", folder)
    killer = threading.Thread(target=_kill_one, args=(victim,), daemon=True)
    killer.start()
    _write(_slow_after_a_shuffle(spark), options, "stage-retry", folder)
    killer.join()
    if victim == WORKER:  # its executor was lost too, and no other worker has a free core
        left = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        assert left == 1, f"{left} executors are left"
    spark.stop()
    with pytest.raises(ReportError, match=r"spark\.stop"):
        last_report()


def _slow_first_task(spark: SparkSession) -> DataFrame:
    """Return a frame with eight tasks, of which the first takes some seconds."""
    return spark.range(0, ROWS, 1, 8).selectExpr(
        f"IF(id < {ROWS // 8}, concat(id, {_SLEEP.format(100)}), CAST(id AS STRING)) AS value"
    )


def _failing_first_attempt(spark: SparkSession) -> DataFrame:
    """Return a frame with two tasks; the first attempt of the second fails at its last row."""

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() and not context.attemptNumber():
            raise RuntimeError("the first attempt fails")

    frame = spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    return frame.mapInArrow(fail_once, "value string")


def _slow_after_a_shuffle(spark: SparkSession) -> DataFrame:
    """Return a frame with four tasks that read shuffle files of four other tasks."""
    shuffled = spark.range(0, ROWS, 1, 4).repartition(4)
    return shuffled.selectExpr(f"concat(id, {_SLEEP.format(50)}) AS value")


def _kill_one(victim: str) -> None:
    """Kill one process some seconds after the start of the write."""
    time.sleep(4)  # The tasks are running, at different points.
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # already exited processes
            if victim in " ".join(process.cmdline()):
                process.kill()
                return


def _write(frame: DataFrame, options: dict[str, str], topic: str, folder: Path) -> None:
    write_options = {**options, "topic": topic, "reportPath": str(folder / f"{topic}.json")}
    if os.environ.get(WITH_WRITE):
        write(frame, write_options)
    else:
        append(frame, write_options)


if __name__ == "__main__":
    arguments = dict(argument.split("=", 1) for argument in sys.argv[4:])
    main(Path(sys.argv[1]), sys.argv[3], {"kafka.bootstrap.servers": sys.argv[2], **arguments})
