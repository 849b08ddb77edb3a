"""How Spark finds `format("kafkaprod")` unasked: it looks for modules named `pyspark_*`."""

from spark_kafka_sink.spark.datasource import KafkaProdDataSource as DefaultSource

__all__ = ["DefaultSource"]
