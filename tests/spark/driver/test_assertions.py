"""`assert_written` in a test of somebody's job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chispa import DataFramesNotEqualError

from spark_kafka_sink import ConfigError, assert_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_kafka_sink import EmbeddedBroker


def test_what_was_written_is_compared_with_a_frame(
    spark: SparkSession, embedded_broker: EmbeddedBroker
) -> None:
    embedded_broker.create_topic("asserted", 2)
    headers = "array(named_struct('key', 'h', 'value', cast('x' AS binary))) AS headers"
    columns = ("cast(id AS string) AS key", "'v' AS value", "'asserted' AS topic", headers, "id")
    frame = spark.range(0, 3, 1, 1).selectExpr(*columns)
    writer = frame.write.format("kafkaprod").mode("append")
    writer.option("kafka.bootstrap.servers", embedded_broker.bootstrap_servers).save()
    assert_written(frame, embedded_broker)
    assert_written(frame.select("value"), embedded_broker, "asserted")
    with pytest.raises(DataFramesNotEqualError) as found:
        assert_written(frame.where("id > 0"), embedded_broker, "asserted")
    assert found.value.__notes__ == ["df1 is what the broker has, df2 the frame that was wanted"]
    with pytest.raises(ConfigError, match="no column `topic`"):
        assert_written(frame.drop("topic"), embedded_broker)
