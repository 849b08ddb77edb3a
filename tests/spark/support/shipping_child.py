"""Write with files that Spark ships to its executors: `shipping_child MASTER FOLDER WRITES`.

WRITES is a JSON object with the options for each topic. FOLDER contains the files to ship; options
contain their names without a folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.support.append import append
from tools.support.java import QUICK_JVM

ROWS = 500
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "500m",
    "spark.executor.memory": "500m",
    "spark.executor.extraJavaOptions": " ".join(QUICK_JVM),
}


def main(master: str, folder: Path, writes: dict[str, dict[str, str]]) -> None:
    """Ship the files and write a frame to each topic."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for path in folder.iterdir():
        spark.sparkContext.addFile(str(path))
    frame = spark.range(0, ROWS, 1, 4).selectExpr("CAST(id AS STRING) AS value")
    for topic, options in writes.items():
        append(frame, {**options, "topic": topic})
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
