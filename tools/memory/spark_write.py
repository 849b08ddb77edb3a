"""Measure a write in a new Spark session: `python -m tools.memory.spark_write ORDER`.

ORDER is a JSON object with `columns`, `count`, `options` and `conf`. The output is one line of JSON
with the fields of a `Reading`. The first write has one row, so that the worker imports all modules.
Spark reuses the worker for the second write. Its peak memory is read from /proc.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_kafka_sink import DeliveryReport
from tools.benchmarks.spark.child import peaks, start_session


def _write(spark: SparkSession, order: Mapping[str, Any], count: int) -> tuple[int, int]:
    """Write the first `count` rows with one task.

    Returns:
        The peak memory of the worker in bytes, and the number of acknowledged rows.
    """
    frame = spark.range(0, count, 1, 1).selectExpr(*order["columns"])
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/report.json"
        writer = frame.write.format("kafkaprod").mode("append").options(**order["options"])
        writer.save(reportPath=path)
        return int(peaks()["peak_mib"] * (1 << 20)), DeliveryReport.read(path).persisted


def main() -> None:
    """Execute the writes and print the result."""
    order = json.loads(sys.argv[1])
    hidden = Path(__file__).parent / "installation"
    spark = start_session(conf=order["conf"], hidden=(hidden,))
    idle, _ = _write(spark, order, 1)
    peak, persisted = _write(spark, order, order["count"])
    spark.stop()
    print(json.dumps({"idle": idle, "peak": peak, "persisted": persisted}))


if __name__ == "__main__":
    main()
