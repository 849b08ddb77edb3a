"""Streaming writes: micro-batches, checkpoints, restarts, failures."""

import shutil
from functools import partial
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafka_sink import DeliveryReport, last_report
from spark_kafka_sink.report.write_status import WriteStatus
from tests.spark.support.console import Console
from tests.spark.support.sink import SHORT, Sink, as_frame, create_topics, local_frame
from tests.spark.support.stream import WAIT_S, Stream
from tests.support.waiting import wait_until
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent


def test_available_now_with_multiple_batches_and_a_restart(stream: Stream) -> None:
    for number in range(3):
        stream.put(f"{number}.txt", [f"{number}-{line}" for line in range(10)])
    stream.run(stream.files())
    assert [report.persisted for report in stream.reports()] == [10, 10, 10]
    stream.put("3.txt", ["3-0"])
    name = stream.topic
    query = stream.start(stream.files(), queryName=name)
    assert query.awaitTermination(WAIT_S)
    last = stream.reports()[-1]
    assert last_report(query) == last_report(name) == last_report(query.id) == last
    assert (last.query_name, last.query_id, last.batch_id) == (name, query.id, 3)
    assert dict(last.metrics.settings)["client.id"] == f"kafkaprod-tests-{name}"
    assert last.duration_ms > 0
    stream.run(stream.files())
    assert [report.persisted for report in stream.reports()] == [10, 10, 10, 1]
    expected = [f"{number}-{line}".encode() for number in range(3) for line in range(10)]
    spark = stream.sink.spark
    assert_df_equality(
        as_frame(spark, by_confluent(stream.sink.bootstrap_servers, stream.topic)).select("value"),
        local_frame(spark, "value binary", [(value,) for value in [*expected, b"3-0"]]),
        ignore_row_order=True,
    )


def test_keys_headers_and_partitions_in_a_stream(stream: Stream) -> None:
    stream.put("0.txt", ["a", "b", "c"])
    frame = stream.files().selectExpr(
        "value AS key",
        "CAST(NULL AS STRING) AS value",
        "3 AS partition",
        "ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST(value AS BINARY))) AS headers",
    )
    stream.run(frame)
    records = by_confluent(stream.sink.bootstrap_servers, stream.topic)
    assert [(r.partition, r.key, r.value, r.headers) for r in records] == [
        (3, key, None, (("h", key),)) for key in (b"a", b"b", b"c")
    ]


def succeeded(stream: Stream) -> list[DeliveryReport]:
    """Return the reports of successful micro-batches; the one of a running batch can exist too."""
    return [report for report in stream.reports() if report.status is WriteStatus.SUCCEEDED]


def has_written(stream: Stream, query: StreamingQuery, count: int) -> bool:
    """Return True if enough micro-batches have been written, or if there will be no more."""
    return len(succeeded(stream)) >= count or not query.isActive


def test_running_query_is_stopped_and_restarted(stream: Stream) -> None:
    source = stream.sink.spark.readStream.format("rate-micro-batch")
    frame = source.options(rowsPerBatch="50", numPartitions="2").load()
    values = frame.selectExpr("CAST(value AS STRING) AS value")
    for _ in range(2):
        before = len(succeeded(stream))
        query = stream.start(values, trigger={"processingTime": "100 milliseconds"})
        wait_until(partial(has_written, stream, query, before + 3))
        query.stop()
        assert query.exception() is None
    numbers = sorted(int(value or b"") for value in stream.written())
    # A batch interrupted by the stop is written again (at-least-once).
    assert set(numbers) == set(range(max(numbers) + 1))
    assert max(numbers) >= 6 * 50 - 1
    reports = stream.reports()
    done = succeeded(stream)
    assert all(report.persisted == 50 for report in done)
    # The batch interrupted by the last stop is not written again here.
    assert len(done) >= len(reports) - 1 >= 5


def test_failed_batch_is_retried(
    sink: Sink, tmp_path: Path, unique_topic: str, real_kafka: KafkaCluster
) -> None:
    stream = Stream(sink, tmp_path, unique_topic)
    stream.put("0.txt", ["a", "b"])
    options = {**SHORT, "kafka.allow.auto.create.topics": "false", "preflight": "off"}
    with pytest.raises(StreamingQueryException, match="UNKNOWN_TOPIC_OR_PARTITION"):
        stream.run(stream.files(), **options)
    assert [report.status for report in stream.reports()] == [WriteStatus.FAILED]
    (failed,) = stream.reports()
    assert last_report() == last_report(failed.query_id) == failed
    assert failed.query_id
    assert failed.duration_ms > 0
    create_topics(real_kafka, [unique_topic])
    stream.put("1.txt", ["c"])
    stream.run(stream.files(), **options)
    assert sorted(value or b"" for value in stream.written()) == [b"a", b"b", b"c"]
    assert [report.persisted for report in stream.reports()] == [2, 1]


def test_tasks_of_a_failed_batch_are_retried(stream: Stream) -> None:
    """The rows of the successful task can be duplicated, but no row is missing."""
    stream.put("0.txt", ["good"])
    stream.put("1.txt", ["bad"])
    frame = (
        stream.sink.spark.readStream.option("maxFilesPerTrigger", "2")
        .text(str(stream.folder / "input"))
        .repartition(2, "value")
    )
    failing = frame.selectExpr("value", "if(value = 'bad', 99, 0) AS partition")
    with pytest.raises(StreamingQueryException, match="specifies a partition"):
        stream.run(failing)
    assert set(stream.written()) <= {b"good"}
    mended = frame.selectExpr("value", "if(value = 'bad', 1, 0) AS partition")
    stream.run(mended)
    assert set(stream.written()) == {b"good", b"bad"}


def test_invalid_option_fails_before_any_task(stream: Stream) -> None:
    stream.put("0.txt", ["a"])
    with pytest.raises(Exception, match=r"kafka\.acks"):
        stream.run(stream.files(), **{"kafka.acks": "2"})
    assert stream.written() == []


def test_frame_without_value(stream: Stream) -> None:
    stream.put("0.txt", ["a"])
    with pytest.raises(Exception, match="attribute 'value'"):
        stream.run(stream.files().withColumnRenamed("value", "text"))


@pytest.mark.parametrize("location", ["file", "file/reports", "dbfs:/x", "s3a://bucket/x"])
def test_invalid_report_folder_fails_before_any_task(stream: Stream, location: str) -> None:
    stream.put("0.txt", ["a"])
    (stream.folder / "file").write_text("in the way")
    path = location if ":" in location else str(stream.folder / location)
    with pytest.raises(Exception, match="report cannot be written"):
        stream.run(stream.files(), reportPath=path)
    assert stream.written() == []


def test_report_folder_becomes_invalid(stream: Stream, console: Console) -> None:
    """The query continues, and each row is written once."""
    mark = console.mark()
    for number in range(4):
        stream.put(f"{number}.txt", [str(number)])
    reports = stream.folder / "reports"
    query = stream.start(stream.files(), trigger={"processingTime": "1 second"})
    try:
        wait_until((reports / "batch-0.json").exists)
        shutil.rmtree(reports)
        reports.write_text("in the way")
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
    console.wait_for("no report of micro-batch 3 was written; data in Kafka is unaffected", mark)
    assert sorted(value or b"" for value in stream.written()) == [b"0", b"1", b"2", b"3"]
    stream.put("4.txt", ["4"])
    reports.unlink()
    stream.run(stream.files())
    assert sorted(value or b"" for value in stream.written()) == [b"0", b"1", b"2", b"3", b"4"]
