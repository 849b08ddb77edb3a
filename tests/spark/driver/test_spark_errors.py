"""What Spark raises for an error of a task, of a batch and of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from spark_kafka_sink import ColumnError, error_of, last_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark_kafka_sink import EmbeddedBroker

_WAIT_S = 120
_COLUMNS = ("'k' AS key", "'v' AS value", "7 AS partition")


def _batch(spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
    del folder
    frame: DataFrame = spark.range(0, 1, 1, 1).selectExpr(*_COLUMNS)
    frame.write.format("kafkaprod").options(**options).mode("append").save()


def _stream(spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
    (folder / "input").mkdir()
    (folder / "input" / "a.txt").write_text("x\n")
    frame = spark.readStream.text(str(folder / "input")).selectExpr(*_COLUMNS)
    stream = frame.writeStream.format("kafkaprod").options(**options)
    stream = stream.option("checkpointLocation", str(folder / "checkpoint"))
    query = stream.trigger(availableNow=True).start()
    try:
        query.awaitTermination(_WAIT_S)
    finally:
        query.stop()


@pytest.mark.parametrize("write", [_batch, _stream])
def test_an_error_of_a_task_comes_back_as_ours(
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
    told = last_report().error
    assert told.startswith("ColumnError: row 0 of Spark partition 0 (key 'k')")
    assert "leave it null" in told
