"""Write a batch, check what was delivered, and look at the records.

Needs a Kafka on localhost:9092, such as `docker compose up -d --wait` or `kafkaprod broker`.
KAFKA=host:port names another.
"""

import os

from pyspark.sql import SparkSession

from spark_kafka_sink import last_report, read_records

kafka = {
    "kafka.bootstrap.servers": os.environ.get("KAFKA", "localhost:9092"),
    "topic": "example-batch",
    "topic.create": "true",
}

spark = SparkSession.builder.appName("example-batch").getOrCreate()
orders = spark.range(10_000).selectExpr(
    "concat('customer-', id % 100) AS key",
    "to_json(named_struct('order', id, 'amount', id * 1.5)) AS value",
)
orders.write.format("kafkaprod").options(**kafka).mode("append").save()

report = last_report()
assert report.persisted == 10_000, report
for record in read_records(offset=-3, **kafka):
    print(record.partition, record.offset, record.key, record.value)
spark.stop()
