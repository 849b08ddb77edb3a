"""A job for `spark-submit`, `job.py SERVERS [register]`, that prints the package's path."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import spark_kafka_sink
from spark_kafka_sink import last_report, register

ROWS = 100


def main(servers: str, *found_by_hand: str) -> None:
    """Write to the topic `events` with a profile of the package."""
    spark = SparkSession.builder.getOrCreate()
    if found_by_hand:
        register(spark)
    frame = spark.range(0, ROWS, 1, 1).selectExpr("CAST(id AS STRING) AS value")
    writer = frame.write.format("kafkaprod").option("kafka.bootstrap.servers", servers)
    writer.option("topic", "events").option("profile", "latency").mode("append").save()
    print(spark_kafka_sink.__file__, last_report().persisted)


if __name__ == "__main__":
    main(*sys.argv[1:])
