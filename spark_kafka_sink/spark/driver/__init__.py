"""What a program calls on the driver beside Spark's own API.

`registration` makes the format known to a thread, `micro_batches` writes from `foreachBatch`,
`spark_errors` reads what Spark raises, `kafka_partitions` gives each Kafka partition to one task.
"""
