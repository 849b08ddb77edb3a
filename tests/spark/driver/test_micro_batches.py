"""A stream in update mode, by `foreachBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink import micro_batch_writer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_kafka_sink import EmbeddedBroker

_WAIT_S = 120


def test_update_mode_writes_what_has_changed(
    spark: SparkSession, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    source, reports = tmp_path / "input", tmp_path / "reports"
    source.mkdir()
    (source / "a.txt").write_text("x\ny\nx\n")
    embedded_broker.create_topic("update-mode", 1)
    options = {
        "kafka.bootstrap.servers": embedded_broker.bootstrap_servers,
        "topic": "update-mode",
        "reportPath": str(reports),
    }
    counts = spark.readStream.text(str(source)).groupBy("value").count()
    stream = counts.writeStream.outputMode("update").foreachBatch(micro_batch_writer(options))
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = stream.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(_WAIT_S), "the query did not end"
    finally:
        query.stop()
    assert embedded_broker.end_offsets("update-mode") == [2]
    assert [path.name for path in reports.iterdir()] == ["batch-0.json"]
