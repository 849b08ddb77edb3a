"""The delivery report: its numbers, its path and the console summary."""

import threading
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame

from spark_kafka_sink import DeliveryReport, last_report
from spark_kafka_sink.report.file_storage import read_report
from spark_kafka_sink.report.write_status import WriteStatus
from tests.spark.support.console import Console
from tests.spark.support.sink import Sink, local_frame
from tests.support.waiting import wait_until
from tools.support.readers import by_confluent, ranges

OFFSETS = "partition int, records bigint, first bigint, last bigint"


def frame_of(sink: Sink, rows: int, tasks: int) -> DataFrame:
    return sink.spark.range(0, rows, 1, tasks).selectExpr(
        "CAST(id AS STRING) AS value", "CAST(id % 3 AS INT) AS partition"
    )


def report_at(path: str | Path) -> DeliveryReport:
    return DeliveryReport.from_json(read_report(str(path)))


@pytest.mark.parametrize("form", ["path", "uri"])
def test_report_matches_the_topic(form: str, sink: Sink, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    shown = str(path) if form == "path" else path.as_uri()
    sink.write(frame_of(sink, 1000, 4), topic=topic, reportPath=shown)
    report = report_at(path)
    assert (report.tasks, report.persisted, report.records) == (4, 1000, 1000)
    assert report == last_report()
    assert report.duration_ms >= report.duration_max_ms > 0
    assert dict(report.metrics.settings)["client.id"] == "kafkaprod-tests"
    assert {part.topic for part in report.partitions} == {topic}
    reported = [
        (p.partition, p.persisted, p.first_offset, p.last_offset) for p in report.partitions
    ]
    offsets = [
        (number, end - start, start, end - 1)
        for number, (start, end) in ranges(sink.bootstrap_servers, topic).items()
        if end > start
    ]
    assert_df_equality(
        local_frame(sink.spark, OFFSETS, reported), local_frame(sink.spark, OFFSETS, offsets)
    )
    values = [int(record.value or b"") for record in by_confluent(sink.bootstrap_servers, topic)]
    assert sorted(values) == list(range(1000))


def test_dry_run(sink: Sink, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    sink.write(
        frame_of(sink, 90, 2),
        topic=topic,
        reportPath=str(path),
        dryRun="true",
        kafka__compression__type="lz4",
        deliveryGuarantee="exactly-once",
        transactionalIdPrefix=topic,
    )
    report = report_at(path)
    assert report == last_report()
    assert (report.status, report.dry_run) == (WriteStatus.SUCCEEDED, True)
    assert (report.tasks, report.records, report.would_be_written) == (2, 90, 90)
    assert [part.would_be_written for part in report.partitions[:3]] == [30, 30, 30]
    assert {cost.records for cost in report.codecs} == {report.codecs[0].records}
    assert str(report).startswith("Kafka dry run: nothing was sent\n")
    assert all(start == end for start, end in ranges(sink.bootstrap_servers, topic).values())


def test_console_summary(sink: Sink, topic: str, console: Console) -> None:
    mark = console.mark()
    sink.write(frame_of(sink, 1234, 2), topic=topic)
    printed = console.wait_for(f"{topic}: 1,234 records in 3 of 4 partitions", mark)
    assert printed.count("Kafka delivery report") == 1
    assert "1,234 persisted" in printed
    assert "2 tasks" in printed


def test_console_summary_of_a_failed_write(sink: Sink, topic: str, console: Console) -> None:
    mark = console.mark()
    # The first of two tasks succeeds long before the second one fails.
    frame = frame_of(sink, 100, 1).unionByName(
        sink.spark.range(1).selectExpr(
            "CAST(java_method('java.lang.Thread', 'sleep', 3000L) AS STRING) AS value",
            "99 AS partition",
        )
    )
    error, _ = sink.jobs_of(lambda: sink.write(frame, topic=topic))
    assert "specifies a partition" in str(error)
    printed = console.wait_for(f"{topic}: 100 records", mark)
    assert "the write failed" in printed
    assert "which stay in Kafka" in printed
    assert len(by_confluent(sink.bootstrap_servers, topic)) == 100


@pytest.mark.parametrize(
    "location", ["{folder}/file/report.json", "{folder}", "dbfs:/x", "s3a://b/x"]
)
def test_invalid_report_path_fails_before_any_task(
    location: str, sink: Sink, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    path = location.format(folder=tmp_path)
    error, jobs = sink.jobs_of(
        lambda: sink.write(frame_of(sink, 9, 1), topic=topic, reportPath=path)
    )
    assert "the delivery report cannot be written" in str(error)
    assert jobs == 0
    assert by_confluent(sink.bootstrap_servers, topic) == []
    assert not Path("dbfs:").exists()


def slow(sink: Sink, value: str, partition: str) -> DataFrame:
    """Return a row whose task takes some seconds."""
    return sink.spark.range(1).selectExpr(
        f"concat('{value}', java_method('java.lang.Thread', 'sleep', 3000L)) AS value",
        f"{partition} AS partition",
    )


def test_unwritable_report_does_not_fail_the_write(
    sink: Sink, topic: str, tmp_path: Path, console: Console
) -> None:
    path, mark = tmp_path / "folder" / "report.json", console.mark()

    def block() -> None:
        wait_until(path.exists)
        path.unlink()
        path.mkdir()

    blocker = threading.Thread(target=block)
    blocker.start()
    sink.write(slow(sink, "a", "0"), topic=topic, reportPath=str(path))
    blocker.join()
    console.wait_for("no report of the write was written; data in Kafka is unaffected", mark)
    assert len(by_confluent(sink.bootstrap_servers, topic)) == 1


def test_report_of_a_failed_write_replaces_the_last_one(
    sink: Sink, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    sink.write(frame_of(sink, 9, 1), topic=topic, reportPath=str(path))
    first = report_at(path)
    assert (first.status, first.error) == (WriteStatus.SUCCEEDED, "")
    frame = frame_of(sink, 100, 1).unionByName(slow(sink, "b", "99"))
    error, _ = sink.jobs_of(lambda: sink.write(frame, topic=topic, reportPath=str(path)))
    assert "specifies a partition" in str(error)
    failed = report_at(path)
    assert (failed.status, failed.persisted) == (WriteStatus.FAILED, 100)
    assert failed.error
    assert failed == last_report()
    assert failed.written_at > first.written_at


def test_report_of_a_running_write(sink: Sink, topic: str, tmp_path: Path) -> None:
    path, seen = tmp_path / "report.json", []

    def watch() -> None:
        wait_until(path.exists)
        seen.append(report_at(path).status)

    watcher = threading.Thread(target=watch)
    watcher.start()
    sink.write(slow(sink, "a", "0"), topic=topic, reportPath=str(path))
    watcher.join()
    assert seen == [WriteStatus.RUNNING]
    assert report_at(path).status is WriteStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("tasks", "slowest", "lines"), [("all", 10, 12), ("slowest", 10, 0), ("none", 0, 0)]
)
def test_task_lines(
    tasks: str, slowest: int, lines: int, sink: Sink, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    sink.write(frame_of(sink, 120, 12), topic=topic, reportPath=str(path), report__tasks=tasks)
    report = report_at(path)
    assert (len(report.slowest), len(report.task_reports)) == (slowest, lines)
    if lines:
        assert {line.task.partition_id for line in report.task_reports} == set(range(12))
        assert {line.records for line in report.task_reports} == {10}
        assert sum(line.bytes_sent for line in report.task_reports) == report.bytes_sent
