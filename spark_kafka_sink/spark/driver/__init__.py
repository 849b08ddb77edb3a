"""Functions that programs call on the driver in addition to Spark's own API.

In reading order:

- `registration`: register the format with a session; write micro-batches from `foreachBatch`
- `spark_errors`: convert exceptions of Spark to errors of this package
- `kafka_partitions`: repartition a DataFrame so that each Kafka partition is in one task
"""
