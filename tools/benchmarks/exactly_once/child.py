"""A warm Spark that writes whole jobs and streams: `python -m ...exactly_once.child`.

Takes JSON orders and answers as `tools.benchmarks.spark.child` does. A job reads a folder of eight
Parquet files; a stream reads eight in each micro-batch, and ends by itself.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, Any

from tools.benchmarks.processes import tree_cpu_s
from tools.benchmarks.spark.child import serve, start_session
from tools.benchmarks.spark.contestants import ARROW_BYTES, UNLIMITED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 8
"""Of a job, and of a micro-batch."""
CORES = 2
_SETTINGS = {
    ARROW_BYTES: UNLIMITED,
    "spark.sql.files.minPartitionNum": str(TASKS),
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
_FORMAT = "kafkaprod"


def _job(spark: SparkSession, order: dict[str, Any]) -> dict[str, float]:
    frame = spark.read.parquet(order["job"])
    if (tasks := frame.rdd.getNumPartitions()) != TASKS:
        raise ValueError(f"{order['job']} is read by {tasks} tasks, not by {TASKS}")
    started, used = time.perf_counter(), tree_cpu_s()
    frame.write.format(_FORMAT).mode("append").options(**order["options"]).save()
    seconds, cpu_s = time.perf_counter() - started, tree_cpu_s() - used
    return {"records": order["records"], "seconds": seconds, "cpu_s": cpu_s}


def _stream(spark: SparkSession, order: dict[str, Any]) -> list[dict[str, int]]:
    """What Spark says that each micro-batch took."""
    source = spark.readStream.schema("value string").option("maxFilesPerTrigger", TASKS)
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            source.parquet(order["stream"])
            .writeStream.format(_FORMAT)
            .options(**order["options"])
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [each.durationMs for each in query.recentProgress if each.numInputRows]


def _answer(spark: SparkSession, order: dict[str, Any]) -> object:
    return _stream(spark, order) if "stream" in order else _job(spark, order)


def main() -> None:
    """Answer orders until the input ends."""
    serve(start_session(CORES, _SETTINGS), _answer)


if __name__ == "__main__":
    main()
