"""Write changed counts from `foreachBatch`, which supports the output mode update.

Needs a Kafka on localhost:9092, such as `docker compose up -d --wait` or `kafkaprod broker`.
KAFKA=host:port names another.
"""

import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from spark_kafka_sink import micro_batch_writer, read_records

kafka = {
    "kafka.bootstrap.servers": os.environ.get("KAFKA", "localhost:9092"),
    "topic": "example-counts",
    "topic.create": "true",
}

folder = Path(tempfile.mkdtemp(prefix="example-foreach-batch-"))
(folder / "input").mkdir()
(folder / "input" / "words.txt").write_text("to\nbe\nor\nnot\nto\nbe\n")

spark = SparkSession.builder.appName("example-foreach-batch").getOrCreate()
words = spark.readStream.text(str(folder / "input"))
counts = words.groupBy("value").count().selectExpr("value AS key", "cast(count AS string) AS value")
query = (
    counts.writeStream.outputMode("update")
    .foreachBatch(micro_batch_writer(kafka))
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
for record in read_records(offset=-10, **kafka):
    print(record.key, record.value)
spark.stop()
