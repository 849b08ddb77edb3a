"""Measure a write in a new Spark session: `python -m tools.memory.spark_write ORDER`.

ORDER is a JSON object with `columns`, `count`, `options` and `conf`. The output is one line of JSON
with the fields of a `Reading`. The first write has one row, so that the worker imports all modules.
Spark reuses the worker for the second write. Its peak memory is read from /proc.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pyspark.sql import SparkSession

from spark_kafka_sink import DeliveryReport
from tools.benchmarks.installation import AS_USERS_HAVE
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAP = "2g"
_INSTALLATION = Path(__file__).parent / "installation"


def _start(conf: Mapping[str, str]) -> SparkSession:
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (_INSTALLATION, AS_USERS_HAVE, ROOT)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": _HEAP,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **conf,
    }
    builder = SparkSession.builder.master("local[1]").appName("memory")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _largest_worker(field: str) -> int:
    """Return the memory in bytes of the largest Python process that the JVM has started."""
    return max(
        _status(process.pid, field)
        for process in psutil.Process().children(recursive=True)
        if process.name().startswith("python")
    )


def _status(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) * 1024


def _write(spark: SparkSession, order: Mapping[str, Any], count: int) -> DeliveryReport:
    """Write the first `count` rows with one task; return the delivery report."""
    frame = spark.range(0, count, 1, 1).selectExpr(*order["columns"])
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        writer = frame.write.format("kafkaprod").mode("append").options(**order["options"])
        writer.option("reportPath", report).save()
        return DeliveryReport.from_json(Path(report).read_text())


def main() -> None:
    """Execute the writes and print the result."""
    order = json.loads(sys.argv[1])
    spark = _start(order["conf"])
    _write(spark, order, 1)
    idle = _largest_worker("VmHWM")
    started = time.perf_counter()
    report = _write(spark, order, order["count"])
    seconds = time.perf_counter() - started
    reading = {
        "idle": idle,
        "peak": _largest_worker("VmHWM"),
        "persisted": report.persisted,
        "seconds": seconds,
    }
    spark.stop()
    print(json.dumps(reading))


if __name__ == "__main__":
    main()
