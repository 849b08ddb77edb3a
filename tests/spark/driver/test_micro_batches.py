"""A stream in update mode with `foreachBatch`."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_kafka_sink import (
    ConfigError,
    DeliveryReport,
    EmbeddedBroker,
    WriteStatus,
    error_of,
    last_report,
    micro_batch_writer,
    write,
)

WAIT_S = 120


def test_update_mode_writes_each_change(
    spark: SparkSession,
    embedded_broker: EmbeddedBroker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "spark_kafka_sink")
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
    query = stream.queryName("changes").trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(WAIT_S), "the query did not end"
    finally:
        query.stop()
    assert embedded_broker.end_offsets("update-mode") == [2]
    assert [path.name for path in reports.iterdir()] == ["batch-0.json"]
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert re.fullmatch(
        "the write of micro-batch 0 of changes is done: 2 persisted[^\n]*", record.getMessage()
    )
    for name in ("changes", query.id):
        assert last_report(name).persisted == 2


def test_queries_with_the_same_report_path(
    spark: SparkSession, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "a.txt").write_text("x\ny\n")
    reports = tmp_path / "reports"
    embedded_broker.create_topic("same-path", 1)
    options = {
        "kafka.bootstrap.servers": embedded_broker.bootstrap_servers,
        "topic": "same-path",
        "reportPath": str(reports),
    }
    for name in ("one", "two", "two"):
        lines = spark.readStream.text(str(tmp_path / "input"))
        stream = lines.writeStream.foreachBatch(micro_batch_writer(options))
        stream = stream.option("checkpointLocation", str(tmp_path / name))
        query = stream.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S), "the query did not end"
        (tmp_path / "input" / f"{name}.txt").write_text("z\n")
    own = next(path for path in reports.iterdir() if path.is_dir())
    assert [path.name for path in reports.iterdir() if path.is_file()] == ["batch-0.json"]
    assert sorted(path.name for path in own.iterdir()) == ["batch-0.json", "batch-1.json"]
    assert DeliveryReport.read(reports / "batch-0.json").persisted == 2
    assert DeliveryReport.read(own).persisted == 4


def test_failed_micro_batch_is_identified_without_a_finished_task(
    spark: SparkSession, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "a.txt").write_text("x\n")
    embedded_broker.create_topic("failed-micro-batch", 1)
    servers = embedded_broker.bootstrap_servers
    writer = micro_batch_writer({"kafka.bootstrap.servers": servers, "topic": "failed-micro-batch"})
    lines = spark.readStream.text(str(tmp_path / "input")).selectExpr("value", "7 AS partition")
    stream = lines.writeStream.foreachBatch(writer)
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(StreamingQueryException, match="specifies a partition"):
        query.awaitTermination(WAIT_S)
    report = last_report(query)
    assert (report.status, report.query_id, report.batch_id) == (WriteStatus.FAILED, query.id, 0)


@pytest.mark.parametrize("function", [micro_batch_writer, write])
def test_function_without_options_is_an_error_with_a_hint(
    spark: SparkSession, tmp_path: Path, function: Any
) -> None:
    lines = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    stream = lines.writeStream.foreachBatch(function)
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(WAIT_S)
    error = error_of(caught.value)
    assert isinstance(error, ConfigError)
    assert ".foreachBatch(micro_batch_writer(options))." in (error.hint or "")
