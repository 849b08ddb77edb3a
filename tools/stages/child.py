"""A warm Spark whose writes are timed by stage: `python -m tools.stages.child`."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import expr

from tools.benchmarks.spark.child import cpu, serve, start_session
from tools.stages.source import FOLDER, NAME, StagedDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _run(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    for name, value in order["conf"].items():
        spark.conf.set(name, value)
    spark.dataSource.register(StagedDataSource)
    folder = Path(os.environ[FOLDER])
    for earlier in folder.iterdir():
        earlier.unlink()
    frame = spark.read.parquet(order["events"]).withColumn("key", expr(order["key"]))
    write = frame.write.format(NAME if order["timed"] else "kafkaprod").mode("append")
    write = write.option("kafka.bootstrap.servers", order["bootstrap_servers"])
    started, used = time.perf_counter(), cpu()
    write.option("topic", order["topic"]).save()
    spent = cpu().since(used)
    seconds: Counter[str] = Counter()
    for each in folder.iterdir():
        seconds.update(json.loads(each.read_text())["seconds"])
    return {"seconds": time.perf_counter() - started, "stages": seconds, **spent}


def main() -> None:
    """Answer orders until the input ends."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER] = folder
        serve(start_session(1, {}), _run)


if __name__ == "__main__":
    main()
