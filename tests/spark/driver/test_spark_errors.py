"""Errors that Spark raises for failed tasks, batches and streams."""

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafka_sink import ColumnError, ConfigError, EmbeddedBroker, error_of, last_report

WAIT_S = 120
REAL_TIME: dict[str, Any] = {"realTime": "5 minutes"}
COLUMNS = ("'k' AS key", "'v' AS value", "7 AS partition")


def batch(spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
    del folder
    frame: DataFrame = spark.range(0, 1, 1, 1).selectExpr(*COLUMNS)
    frame.write.format("kafkaprod").options(**options).mode("append").save()


def run_stream(spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
    (folder / "input").mkdir()
    (folder / "input" / "a.txt").write_text("x\n")
    frame = spark.readStream.text(str(folder / "input")).selectExpr(*COLUMNS)
    stream = frame.writeStream.format("kafkaprod").options(**options)
    stream = stream.option("checkpointLocation", str(folder / "checkpoint"))
    query = stream.trigger(availableNow=True).start()
    try:
        query.awaitTermination(WAIT_S)
    finally:
        query.stop()


@pytest.mark.parametrize("write", [batch, run_stream])
def test_error_of_a_task(
    write: Callable[[SparkSession, Path, dict[str, str]], None],
    spark: SparkSession,
    embedded_broker: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    topic = f"errors{write.__name__}"
    embedded_broker.create_topic(topic, 2)
    servers = {"kafka.bootstrap.servers": embedded_broker.bootstrap_servers}
    with pytest.raises(PySparkException) as caught:
        write(spark, tmp_path, {**servers, "topic": topic})
    error = error_of(caught.value)
    assert isinstance(error, ColumnError)
    assert (error.topic, error.partition) == (topic, 7)
    assert "row 0 of Spark partition 0 (key 'k')" in error.message
    assert "leave it null" in (error.hint or "")
    message = last_report().error
    assert message.startswith("ColumnError: row 0 of Spark partition 0 (key 'k')")
    assert "leave it null" in message


def test_rejected_partition_by_has_a_hint(
    spark: SparkSession, embedded_broker: EmbeddedBroker
) -> None:
    options = {"kafka.bootstrap.servers": embedded_broker.bootstrap_servers, "topic": "t"}
    writer = spark.range(1).selectExpr("'a' AS value", "id").write.format("kafkaprod")
    with pytest.raises(PySparkException) as caught:
        writer.options(**options).partitionBy("id").mode("append").save()
    error = error_of(caught.value)
    assert isinstance(error, ConfigError)
    assert "Remove .partitionBy" in (error.hint or "")


if "realTime" in signature(DataStreamWriter.trigger).parameters:  # PySpark 4.2 and newer

    @pytest.mark.parametrize("check", ["true", "false"])
    def test_real_time_mode_is_rejected_with_a_hint(
        check: str, spark: SparkSession, embedded_broker: EmbeddedBroker, tmp_path: Path
    ) -> None:
        """With and without its list of sinks; it requires update mode, which Python sinks lack."""
        own, jvm = spark.newSession(), spark._jvm
        assert jvm is not None
        own.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", check)
        streams = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
        source = streams.apply(own._jsparkSession, jvm.org.apache.spark.sql.Encoders.STRING())
        writer = DataFrame(source.toDF(), own).writeStream.format("kafkaprod").outputMode("update")
        servers = {"kafka.bootstrap.servers": embedded_broker.bootstrap_servers, "topic": "t"}
        writer = writer.options(**servers, checkpointLocation=str(tmp_path))
        with pytest.raises(PySparkException) as caught:
            writer.trigger(**REAL_TIME).start()
        error = error_of(caught.value)
        assert isinstance(error, ConfigError)
        assert "processingTime='0 seconds'" in (error.hint or "")
