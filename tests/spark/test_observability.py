"""Metrics, statistics lines and debug events of a write from Spark."""

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame

from spark_kafka_sink import DeliveryReport, progress
from spark_kafka_sink.spark.reports.write_progress import WriteProgress
from tests.spark.support.console import Console
from tests.spark.support.sink import Sink


def frame(sink: Sink, rows: int, tasks: int) -> DataFrame:
    return sink.spark.range(0, rows, 1, tasks).selectExpr("CAST(id AS STRING) AS value")


def test_driver_exports_metrics_of_all_tasks_to_prometheus(
    sink: Sink, topic: str, tmp_path: Path
) -> None:
    path, report_path = tmp_path / "kafka.prom", tmp_path / "report.json"
    sink.write(
        frame(sink, 1000, 4),
        topic=topic,
        reportPath=str(report_path),
        metrics__prometheus__textfile=str(path),
    )
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
        if not sample.labels
    }
    report = DeliveryReport.from_json(report_path.read_text())
    assert samples["kafka_producer_record_send_total"] == report.persisted == 1000
    assert samples["kafka_producer_byte_total"] == report.bytes_sent
    assert report.metrics.batch_records.total == 1000
    assert {part.leader for part in report.partitions} == {1}


def test_statistics_and_debug_events_on_executor_console(
    sink: Sink, topic: str, console: Console
) -> None:
    since = console.mark()
    sink.write(
        frame(sink, 100, 1),
        topic=topic,
        kafka__statistics__interval__ms="60000",
        kafka__debug="msg",
    )
    text = console.wait_for("spark_kafka_sink.statistics", since)
    (line,) = re.findall(r"INFO spark_kafka_sink\.statistics: (\{.*\})", text)
    statistics = json.loads(line)
    assert statistics["txmsgs"] == 100
    events = re.findall(r"DEBUG spark_kafka_sink\.debug\.msg: (\w+) session=(\S+)", text)
    assert {name for name, _ in events} == {
        "append",
        "close",
        "assign_partition",
        "send",
        "response",
    }
    assert {session for _, session in events} == {statistics["name"]}


def test_statistics_files_are_readable_by_spark(sink: Sink, topic: str, tmp_path: Path) -> None:
    folder = tmp_path / "statistics"
    sink.write(frame(sink, 1000, 4), topic=topic, statisticsPath=str(folder))
    files = {path.name.split("-")[1] for path in folder.iterdir()}
    assert files == {"0", "1", "2", "3"}
    lines = sink.spark.read.json(str(folder)).select("txmsgs", "eos.idemp_state").collect()
    assert [tuple(line) for line in lines] == [(250, "Assigned")] * 4


def test_progress_of_all_tasks_on_the_driver(sink: Sink, topic: str) -> None:
    seen: list[WriteProgress] = []
    with progress(sink.spark, interval_s=0.2, show=seen.append):
        sink.write(frame(sink, 1000, 4), topic=topic)
    last = seen[-1]
    assert (last.rows, last.persisted, last.running, last.ended) == (1000, 1000, 0, 4)
    count = len(seen)
    sink.write(frame(sink, 10, 1), topic=topic)
    assert len(seen) == count
