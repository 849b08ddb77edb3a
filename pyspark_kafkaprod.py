"""Let Spark find `format("kafkaprod")` without an import: it loads modules named `pyspark_*`."""

from spark_kafka_sink.spark.datasource import KafkaProdDataSource as DefaultSource

__all__ = ["DefaultSource"]
