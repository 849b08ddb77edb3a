"""Run a batch job twice, as a scheduler does after a failure: its rows are written once.

Needs a Kafka on localhost:9092, such as `docker compose up -d --wait` or `kafkaprod broker`.
KAFKA=host:port names another.
"""

import os
import uuid

from pyspark.sql import SparkSession

from spark_kafka_sink import last_report, read_records

kafka = {
    "kafka.bootstrap.servers": os.environ.get("KAFKA", "localhost:9092"),
    "topic": "example-exactly-once",
    "topic.create": "true",
}
once = {
    "deliveryGuarantee": "exactly-once",
    "transactionalIdPrefix": "example",
    "batchId": str(uuid.uuid4()),  # a real job uses the date or the id of the scheduled run
}

spark = SparkSession.builder.appName("example-exactly-once").getOrCreate()
rows = spark.range(1000).selectExpr("cast(id AS string) AS key", f"'{once['batchId']}' AS value")
for _ in range(2):
    rows.write.format("kafkaprod").options(**kafka, **once).mode("append").save()
    print(last_report().transaction_outcome)  # committed, then already written

written = [row for row in read_records(**kafka) if row.value == once["batchId"].encode()]
assert len(written) == 1000, len(written)
print(f"{len(written):,} records, each once")
spark.stop()
