"""A warm Spark session that writes on demand: `python -m tools.benchmarks.spark.child`.

Takes one JSON order a line on its standard input and answers each with one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from tools.benchmarks.installation import AS_USERS_HAVE
from tools.benchmarks.spark import usage
from tools.benchmarks.spark.contestants import ARROW_BYTES, ARROW_ROWS
from tools.benchmarks.spark.writers import WRITERS
from tools.support.jars import ROOT, SPARK_SINK, ensure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def start_session(cores: int, more: Mapping[str, str]) -> SparkSession:
    """A local Spark with these settings besides its own."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (AS_USERS_HAVE, ROOT)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.jars": ",".join(map(str, ensure(SPARK_SINK).paths())),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("benchmark")
    for name, value in (*settings.items(), *more.items()):
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _run(spark: SparkSession, order: dict[str, Any]) -> dict[str, float]:
    for name in (ARROW_BYTES, ARROW_ROWS):
        if name in order["conf"]:
            spark.conf.set(name, order["conf"][name])
        else:
            spark.conf.unset(name)
    frame = spark.read.parquet(order["events"])
    for name, expression in order["columns"].items():
        frame = frame.withColumn(name, expr(expression))
    write = WRITERS[order["writer"]]
    usage.reset_peaks()
    started, used = time.perf_counter(), usage.cpu()
    write(frame, order["topic"], order["options"])
    seconds, spent = time.perf_counter() - started, usage.cpu().since(used)
    return {"records": order["records"], "seconds": seconds, **spent, **usage.peaks()}


def serve(spark: SparkSession, answer: Callable[[SparkSession, dict[str, Any]], object]) -> None:
    """Answer orders until the input ends."""
    # Spark and its workers may print what they like: answers have a channel of their own.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            answers.write(json.dumps(answer(spark, json.loads(line))) + "\n")
            answers.flush()
        spark.stop()


def main() -> None:
    """Answer orders until the input ends."""
    serve(start_session(1, {}), _run)


if __name__ == "__main__":
    main()
