"""A separate Spark with a heap of 1 GiB that writes rows of 60 KB.

Arguments: properties file, bootstrap servers, topic, report file and number of rows.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from tests.spark.support.append import append

ROW_BYTES = 60_000


def main() -> None:
    """Write the rows."""
    properties, servers, topic, report, rows = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--properties-file {properties} --driver-memory 1g pyspark-shell"
    )
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    frame = spark.range(0, int(rows), 1, 1).selectExpr(f"repeat('x', {ROW_BYTES}) AS value")
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "reportPath": report}
    append(frame, options | {"kafka.compression.type": "lz4"})
    spark.stop()


if __name__ == "__main__":
    main()
