"""Spark's classes as the JVM shares them between its processes: drivers start in half the time.

`python -m tools.torture_eos.spark.archive FILE` makes the file (JEP 350, dynamic archives).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

from tools.support.jars import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_TIMEOUT_S = 300


def class_archive() -> Path:
    """The file, made where it isn't there; of use to the JVM that has made it alone."""
    path = CACHE / "torture-eos" / f"spark-{pyspark.__version__}.jsa"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            part = Path(folder) / path.name
            command = [sys.executable, "-m", __spec__.name, str(part)]
            subprocess.run(command, check=True, timeout=_TIMEOUT_S, capture_output=True)
            part.rename(path)
    return path


def main(path: str) -> None:
    """Load what a stream needs, and have the JVM keep it."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={path}"
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", options)
            .getOrCreate()
        )
        spark.range(10).write.parquet(f"{folder}/input")
        frame = spark.readStream.schema("id bigint").parquet(f"{folder}/input")
        frame = frame.repartition(2, "id").mapInArrow(_same, "id bigint")
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        jvm = spark.sparkContext._gateway
        assert jvm is not None
        spark.stop()
        jvm.shutdown()
        jvm.proc.stdin.close()
        jvm.proc.wait()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    main(sys.argv[1])
