"""Write a stream with a report for each micro-batch, until Ctrl-C or for SECONDS.

Needs a Kafka on localhost:9092, such as `docker compose up -d --wait` or `kafkaprod broker`.
KAFKA=host:port names another. Compare the micro-batches with `kafkaprod report FOLDER`.
"""

import os
import tempfile

from pyspark.sql import SparkSession

folder = tempfile.mkdtemp(prefix="example-stream-")
options = {
    "kafka.bootstrap.servers": os.environ.get("KAFKA", "localhost:9092"),
    "topic": "example-stream",
    "topic.create": "true",
    "reportPath": f"{folder}/reports",
    "checkpointLocation": f"{folder}/checkpoint",  # a real job keeps it, to continue from there
}

spark = SparkSession.builder.appName("example-stream").getOrCreate()
ticks = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
query = (
    ticks.selectExpr("cast(value AS string) AS key", "cast(timestamp AS string) AS value")
    .writeStream.format("kafkaprod")
    .options(**options)
    .queryName("ticks")
    .trigger(processingTime="2 seconds")
    .start()
)
query.awaitTermination(int(os.environ.get("SECONDS_TO_RUN", "30")))
query.stop()
print(f"kafkaprod report {folder}/reports")
spark.stop()
