"""Functions that the oldest PySpark releases lack give the same results without them."""

from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_kafka_sink.spark.pyspark_backports import repartition_by_id


@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("older", [False, True], ids=["this release", "before 4.1"])
def test_rows_are_in_the_partition_with_their_number(
    spark: SparkSession, count: int, older: bool
) -> None:
    rows = spark.range(200).withColumn("partition", (sf.col("id") % count).cast("int"))
    frame = SimpleNamespace(repartition=rows.repartition) if older else rows
    moved: DataFrame = repartition_by_id(frame, count, sf.col("partition"))  # type: ignore[arg-type]
    assert moved.rdd.getNumPartitions() == count
    assert moved.where("partition != spark_partition_id()").count() == 0
    assert moved.count() == 200
